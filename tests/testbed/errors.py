"""``TryoutError``, the error of the CRI client, testbed and try-out: the thing, the problem and the remedy."""

from dataclasses import dataclass

from cri_proxy.errors import CriProxyError


@dataclass(eq=False)
class TryoutError(CriProxyError):
    """``thing`` did not do what it should: ``problem`` is what happened, ``remedy`` (may be '') what to do."""

    thing: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.thing}: {self.problem}" + (f"\n{self.remedy}" if self.remedy else "")
