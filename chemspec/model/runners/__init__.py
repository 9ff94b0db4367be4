"""What computes a forward pass: the compiled kernel, torch, recorded CUDA graphs, Triton kernels."""
