"""Preregistered A/B experiments on inference engines: lock, run, computed verdict, ledger."""

__version__ = "0.1.0"
