"""What a daemon says of itself, as typed values instead of JSON."""

import asyncio
from pathlib import Path

from cri_proxy.codec import decode
from cri_proxy.http.client import DaemonUnreachable, ask
from cri_proxy.node.status.model import ExplainView, StatusView


class AdminSocket:
    """Questions to the admin socket; each is a connection of its own."""

    def __init__(self, path: Path) -> None:
        """Nothing is asked yet; nobody need listen."""
        self.path = path

    async def status(self) -> StatusView:
        """Pools and containers now. Raises DaemonUnreachable."""
        return decode(StatusView, await asyncio.to_thread(ask, self.path, "/api/v1/status"))

    async def explain(self, pod: str) -> ExplainView:
        """Why the containers of this pod (name or uid) sit where they sit. Raises DaemonUnreachable."""
        return decode(ExplainView, await asyncio.to_thread(ask, self.path, "/api/v1/explain", {"pod": pod}))

    async def is_ready(self) -> bool:
        """Whether decisions are made; False as well when nobody answers."""
        try:
            return (await self.status()).is_ready
        except DaemonUnreachable:
            return False
