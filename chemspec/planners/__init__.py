"""Be a single-step model inside other people's planners: `syntheseus` and `aizynth`, with an engine or a service.

With a service, these modules need the planner's own packages and nothing of ours.
"""
