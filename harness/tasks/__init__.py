"""Item sources, their buckets, answer extraction and the tokenizer of the embedded models."""
