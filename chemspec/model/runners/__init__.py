"""What computes a pass: torch, recorded CUDA graphs, Hugging Face models, compiled code."""
