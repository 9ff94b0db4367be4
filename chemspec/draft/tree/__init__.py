"""Trees of likely continuations: copies of the query and edits learned from training answers."""
