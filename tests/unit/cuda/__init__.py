"""Tests of the CUDA toolkits."""
