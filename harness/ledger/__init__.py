"""The append-only, hash-chained history of a study: what was frozen, run, opened and decided."""
