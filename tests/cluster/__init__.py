"""A package, so that its Ray has stopped before other tests run in the process."""
