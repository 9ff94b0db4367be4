"""What computes a pass: torch, ONNX Runtime, recorded CUDA graphs, Hugging Face models, compiled code."""
