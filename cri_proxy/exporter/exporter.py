"""Run the parts of the exporter beside each other: each looks at the daemon again and again, and tells the cluster.

A part that fails waits longer and longer, and as long as the API server asks for; the others go on. What fails is
logged once, and when it works again.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from typing import Final, Protocol

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.errors import CriProxyError
from cri_proxy.exporter.daemon import DaemonNotReady
from cri_proxy.http.call import Unreachable
from cri_proxy.kube_api.access import AccessError
from cri_proxy.kube_api.client import ApiRefused
from cri_proxy.logs import Log
from cri_proxy.tasks import Tasks

PERIOD_SECONDS: Final = 5.0
RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0)
"""After each failed attempt; the last one holds for all that follow."""
_REMEDIES: Final = {
    HTTPStatus.UNAUTHORIZED: "the token is not accepted: is the account still there?",
    HTTPStatus.FORBIDDEN: "apply packaging/kubernetes/exporter/daemonset.yaml, which grants it",
    HTTPStatus.NOT_FOUND: "is the NodeResourceTopology CRD installed, and the Node there?",
}


class ExporterPart(Protocol):
    """One thing that the cluster is told."""

    name: str

    async def step(self) -> None:
        """Look at the daemon once, and tell the cluster what has changed.

        Raises DaemonNotReady, Unreachable, AccessError and ApiRefused.
        """


@dataclass(frozen=True, slots=True)
class Exporter:
    """The parts, and how often they look."""

    parts: Sequence[ExporterPart]
    clock: Clock
    log: Log
    random: Random
    period_seconds: float = PERIOD_SECONDS

    async def serve(self, stopping: Callable[[], Awaitable[object]]) -> None:
        """Run until ``stopping`` returns."""
        tasks = Tasks()
        for part in self.parts:
            tasks.start(self._keep(part), name=part.name)
        try:
            await stopping()
        finally:
            await tasks.cancel()

    async def once(self) -> bool:
        """Let each part look once; return whether all worked. What fails is logged."""
        # A list, so that each part looks, also behind one that fails.
        return all([not await self._problem(part) for part in self.parts])

    async def _keep(self, part: ExporterPart) -> None:
        failures, told = 0, ""
        while True:
            problem = await self._problem(part, told)
            if not problem:
                if told:
                    self.log.info(events.EXPORTED_AGAIN, what=part.name)
                failures, told = 0, ""
                await self.clock.sleep(self.period_seconds)
                continue
            wait_seconds = max(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)], problem.retry_seconds)
            failures, told = failures + 1, problem.text
            # Many nodes that lost the same API server come back one after the other.
            await self.clock.sleep(wait_seconds * self.random.uniform(1.0, 1.5))

    async def _problem(self, part: ExporterPart, told: str = "") -> "_Problem | None":
        """Return why a step failed, logged unless that was ``told`` last."""
        try:
            await part.step()
        except (DaemonNotReady, Unreachable, AccessError, ApiRefused) as error:
            text = str(error)
            if text != told:
                self.log.warning(events.NOT_EXPORTED, what=part.name, reason=text, remedy=_remedy(error))
            return _Problem(text, error.retry_seconds if isinstance(error, ApiRefused) else 0.0)
        return None


@dataclass(frozen=True, slots=True)
class _Problem:
    text: str
    retry_seconds: float


def _remedy(error: CriProxyError) -> str | None:
    if not isinstance(error, ApiRefused):
        return None
    with suppress(ValueError):
        return _REMEDIES.get(HTTPStatus(error.status))
    return None
