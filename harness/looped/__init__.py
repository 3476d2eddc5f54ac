"""Looped language models: weights, caches, decoding and training."""
