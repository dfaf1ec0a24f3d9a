"""Typed in-process signals (not POSIX): a lower part of the node reports an event to receivers in the parts above."""

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """One kind of event. It is built before its sender and its receivers, which get it as an argument."""

    def __init__(self) -> None:
        """Start without receivers."""
        self._receivers: list[Callable[P, None]] = []

    def connect(self, receiver: Callable[P, None]) -> None:
        """Call this with every later event; it must not block or raise."""
        self._receivers.append(receiver)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call the receivers at once, in the order of their connection."""
        for receiver in self._receivers:
            receiver(*args, **kwargs)
