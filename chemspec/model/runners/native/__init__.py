"""The pass on a CPU as compiled code; fp32, the same to the last bit whatever else is in the pass."""
