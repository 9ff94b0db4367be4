"""A package, so that its browser is closed, and its loop of asyncio over, before other tests run in the process."""
