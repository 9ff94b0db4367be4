"""Read what was typed, pasted or uploaded, in any format, as one query for a model."""
