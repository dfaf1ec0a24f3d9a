"""Errors of a scenario: an expression without a truth value, and a step that cannot be carried out."""

from cri_proxy.errors import CriProxyError


class ExpectationError(CriProxyError):
    """An expression of ``expect`` that has no truth value: the problem and the remedy."""


class StepError(CriProxyError):
    """A step that cannot be carried out, in words for the author of the scenario."""
