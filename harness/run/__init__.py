"""Execute a plan: workers, journal, resume by key, seal."""
