"""The loop in C++: greedy decoding and beam search with the drafters that it knows, on numbered nodes."""
