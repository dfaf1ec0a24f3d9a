"""``ExpectationError``: an expression without a truth value."""

from dataclasses import dataclass

from cri_proxy.errors import CriProxyError


@dataclass(eq=False)
class ExpectationError(CriProxyError):
    """An expression of ``expect`` that has no truth value: the problem and the remedy."""

    problem: str
