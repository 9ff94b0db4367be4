"""The transformer, the session that keeps its prefix tree, its weights on disk and what a pass costs."""
