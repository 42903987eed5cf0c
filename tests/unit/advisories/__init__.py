"""Which node has which of NVIDIA's known holes."""
