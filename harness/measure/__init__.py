"""From sealed records to estimates and verdicts: one module per measurement, then the join."""
