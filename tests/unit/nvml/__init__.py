"""Tests of NVML's readings."""
