"""Review of predictions: strategies, plausibility, the forward check, reagents, precedents and stock."""
