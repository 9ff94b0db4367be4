"""Be a single-step model inside other planners, with an engine, or with a service and then few packages."""
