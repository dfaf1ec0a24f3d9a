"""Query a daemon's admin socket, from the try-out and tests: status, explanations and readiness as typed values."""

import asyncio
from pathlib import Path

from cri_proxy.codec import decode
from cri_proxy.http.client import DaemonUnreachable, ask
from cri_proxy.node.status.model import ExplainView, StatusView


class AdminSocket:
    """A client of the admin socket; each query opens a connection."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def status(self) -> StatusView:
        """Return pools and containers now. Raises DaemonUnreachable."""
        return decode(StatusView, await asyncio.to_thread(ask, self.path, "/api/v1/status"))

    async def explain(self, pod: str) -> ExplainView:
        """Return why the containers of this pod (name or uid) are where they are. Raises DaemonUnreachable."""
        return decode(ExplainView, await asyncio.to_thread(ask, self.path, "/api/v1/explain", {"pod": pod}))

    async def is_ready(self) -> bool:
        """Return True when the daemon makes decisions; False also when it does not answer."""
        try:
            return (await self.status()).is_ready
        except DaemonUnreachable:
            return False
