"""``ScenarioError`` (file, line, problem) and ``ExpectationError`` (an expression without a truth value)."""

from dataclasses import dataclass

from cri_proxy.errors import CriProxyError


@dataclass(eq=False)
class ScenarioError(CriProxyError):
    """A scenario that cannot be run. ``line`` counts from 1; 0 = unknown."""

    source: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.problem}" if self.line else f"{self.source}: {self.problem}"


@dataclass(eq=False)
class ExpectationError(CriProxyError):
    """An expression of ``expect`` that has no truth value: the problem and the remedy."""

    problem: str

    def __str__(self) -> str:
        return self.problem
