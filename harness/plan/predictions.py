"""The level at which a prediction is decided. It follows from the family; nobody types it."""

from __future__ import annotations

from decimal import Decimal

from harness.plan.schema import Plan, Prediction

ALPHA = Decimal("0.05")


def alpha(plan: Plan, prediction: Prediction, attempt: int) -> Decimal:
    """Return the error rate a prediction may spend.

    Primary predictions of one plan share 5 % (Bonferroni), and so do all attempts at one question;
    each other prediction has 5 % of its own and is labelled as what it is.
    """
    if prediction.family != "primary":
        return ALPHA
    family = [other for other in plan.predictions if other.family == "primary"]
    return ALPHA / len(family) / attempt


def confidence_level(plan: Plan, prediction: Prediction, attempt: int) -> str:
    """Return the interval's confidence 1 − 2α as a decimal string of at most 12 digits.

    An interval inside a region rejects "at or beyond either end" by two one-sided tests at α each,
    an intersection–union test of size α (Schuirmann 1987), so α is not halved for two ends.
    """
    level = 1 - 2 * alpha(plan, prediction, attempt)
    return format(level.quantize(Decimal("1e-12")).normalize(), "f")
