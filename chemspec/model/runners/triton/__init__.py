"""Runner on a GPU without padding: bitwise batch-invariant Triton kernels."""
