"""What can go wrong in this package, each with one line for the user."""

from __future__ import annotations


class LoopedError(ValueError):
    """Base of the mistakes a user can make; the message says what was found and expected."""


class ConfigError(LoopedError):
    """A config.json is missing, broken, or describes a model that is not supported."""


class WeightsError(LoopedError):
    """A checkpoint's tensors are not the ones that its config asks for."""


class PolicyError(LoopedError):
    """A cache policy, a pass length or a decoding option is not allowed."""


class BudgetError(LoopedError):
    """What was asked for needs more memory than the budget allows."""
