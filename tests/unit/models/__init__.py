"""The store of models and data sets."""
