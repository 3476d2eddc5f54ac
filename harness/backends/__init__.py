"""Engines behind one wire: the protocol, a table of engines, and what each needs to start."""
