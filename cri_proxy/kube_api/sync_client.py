"""The client for a process that does one thing after the other, without an event loop. Blocks."""

import asyncio

from cri_proxy.kube_api.access import ApiAccess
from cri_proxy.kube_api.client import ApiClient, Plain


class BlockingClient:
    """Asks as one account, on a loop that lasts for one call."""

    def __init__(self, access: ApiAccess) -> None:
        """Connect to nothing yet."""
        self._client = ApiClient(access)

    def get(self, path: str) -> Plain | None:
        """Return the object at this path, None where there is none. Raises CriProxyError."""
        return asyncio.run(self._client.get(path))

    def send(self, method: str, path: str, value: Plain, content_type: str = "application/json") -> Plain:
        """Return the object after this write. Raises CriProxyError."""
        return asyncio.run(self._client.send(method, path, value, content_type))
