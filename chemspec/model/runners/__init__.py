"""What computes a forward pass: the compiled kernel, torch, torch with CUDA graphs."""
