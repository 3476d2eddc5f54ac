"""Freezing a plan, choosing by a frozen rule, and checking later that nothing moved."""
