"""Bundles for labs without a network."""
