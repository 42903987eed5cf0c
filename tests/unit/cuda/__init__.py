"""Tests of the CUDA toolkits, and of what is built with them."""
