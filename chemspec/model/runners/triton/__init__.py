"""The pass on a GPU without padding: Triton kernels whose rows have the same bits in any company."""
