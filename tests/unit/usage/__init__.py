"""Who used the GPUs in a month."""
