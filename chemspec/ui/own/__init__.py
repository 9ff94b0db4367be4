"""The page Your chemistry: what one can make from the shelf, and models fine-tuned on own reactions."""
