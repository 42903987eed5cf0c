"""Tests of the driver's kernel modules: DKMS, keys of Secure Boot, .run files."""
