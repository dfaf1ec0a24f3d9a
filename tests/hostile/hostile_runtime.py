"""A runtime that turns on one pod: it never answers, refuses at any length, or answers what is no answer."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cri_proxy.errors import CallFailed
from sysfs.model import Machine
from tests.fakes.scripted_runtime import ScriptedRuntime

Matches = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class _Rule:
    method: str
    matches: Matches
    answer: Callable[[], bytes] | None  # None: no answer


def of(text: str) -> Matches:
    """Requests in which this text stands: a pod's name, a container's id."""
    return lambda message: text.encode() in message


class HostileRuntime(ScriptedRuntime):
    """To others it is a runtime like any other. ``faults`` of the base are there too."""

    def __init__(self, machine: Machine, *, image_names: Sequence[str]) -> None:
        super().__init__(machine, image_names=image_names)
        self._rules: list[_Rule] = []
        self._released = asyncio.Event()

    def never_answer(self, method: str, matches: Matches) -> None:
        """Take calls of this method and say nothing until ``behave``."""
        self._rules.append(_Rule(method, matches, None))

    def refuse(self, method: str, matches: Matches, code: int, message: str) -> None:
        """Refuse every call of this method with these words."""

        def fail() -> bytes:
            raise CallFailed(method, code, message)

        self._rules.append(_Rule(method, matches, fail))

    def answer(self, method: str, matches: Matches, reply: bytes) -> None:
        """Answer OK with these bytes, and do nothing."""
        self._rules.append(_Rule(method, matches, lambda: reply))

    def behave(self) -> None:
        """Forget all that; calls without an answer take effect."""
        self._rules.clear()
        self._released.set()
        self._released = asyncio.Event()
        self.faults.clear()

    async def call(self, method: str, message: bytes) -> bytes:
        for rule in self._rules:
            if method.endswith(f"/{rule.method}") and rule.matches(message):
                if rule.answer is not None:
                    return rule.answer()
                await self._released.wait()
                break
        return await super().call(method, message)
