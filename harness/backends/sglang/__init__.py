"""SGLang as an engine: its worker, our looped models for it, the RIPE patch, its installation."""
