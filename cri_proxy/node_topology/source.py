"""Keep the node's NodeResourceTopology object as JSON: made again when it is asked for and something has changed."""

import json
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from cri_proxy import events
from cri_proxy.file_workers import FileCalls, FilesFailed
from cri_proxy.http.limits import FairShare
from cri_proxy.http.messages import JSON, Query, Response, text_response
from cri_proxy.node.node import Node
from cri_proxy.node_topology.document import TopologySnapshot, node_resource_topology
from cri_proxy.private_files import put_file
from cri_proxy.steps import Steps
from cri_proxy.version import version
from policies.topology_aware import TopologyAwareOptions

FOLLOW_SECONDS: Final = 1.0
"""How often the file follows what has changed: a burst of pods makes one write."""
_WRITE_SECONDS: Final = 5.0
_MODE: Final = 0o644

NOT_RECOVERED: Final = "what is free is not known before the saved placements are checked against the runtime"
NOT_PLACED: Final = "the policy places no containers, so that what is free is not known here"


class TopologySource:
    """The object of one node. ``digest`` returns that of the configuration in force."""

    def __init__(self, node: Node, name: str, digest: Callable[[], str]) -> None:
        """Make nothing yet. ``name`` is the node's."""
        self._node = node
        self._name = name
        self._digest = digest
        self._made: tuple[TopologySnapshot, bytes] | None = None

    def answer(self, query: Query) -> Steps[Response]:
        """Answer GET with the object; 503 and the reason while there is none."""
        text, problem = yield from self.text_steps()
        if problem:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, problem)
        return Response(HTTPStatus.OK, JSON, text)

    def text_steps(self) -> Steps[tuple[bytes, str]]:
        """Return the object as JSON, the same bytes while nothing in it has changed; else b"" and why there is none."""
        if not self._node.coordinator.is_ready:
            return b"", NOT_RECOVERED
        snapshot = self._snapshot()
        if self._made is None or self._made[0] != snapshot:
            written = yield from _written(snapshot)
            self._made = snapshot, written
        return self._made[1], "" if self._made[1] else NOT_PLACED

    def _snapshot(self) -> TopologySnapshot:
        ledger, config = self._node.context.ledger, self._node.coordinator.config
        held = ((sandbox_id, sandbox.pod) for sandbox_id, sandbox in ledger.sandboxes.items())
        listed = (*held, *((row.sandbox_id, row.grant.request.pod) for row in ledger.active()))
        here = {(pod.namespace, pod.name) for sandbox_id, pod in listed if sandbox_id not in ledger.stopped}
        return TopologySnapshot(
            self._name,
            ledger.policy,
            ledger.allocations,
            config.topology_manager,
            config.of_policy(TopologyAwareOptions).single_node,
            tuple(sorted(here)),
            self._digest(),
            version(),
            ledger.version,
        )


def _written(snapshot: TopologySnapshot) -> Steps[bytes]:
    """Return the object as JSON; b"" where the policy knows of nothing that it could give."""
    free = snapshot.policy.node_free(snapshot.held)
    yield
    if not free:
        return b""
    plain = node_resource_topology(snapshot, free)
    yield
    return f"{json.dumps(plain)}\n".encode()


class TopologyFile:
    """Writes the object to a file, as a whole and only when it has changed."""

    def __init__(self, source: TopologySource, path: Path, node: Node, files: FileCalls) -> None:
        """``files`` writes it, off the event loop."""
        self._source = source
        self._path = path
        self._context = node.context
        self._files = files
        self._share = FairShare(node.context.clock)
        self._written = b""
        self.problem = ""
        """Why the file has not the object of now; '' = it has, or there is none."""

    async def follow(self) -> None:
        """Write it whenever it has changed, until cancelled."""
        while True:
            await self.write()
            await self._context.clock.sleep(FOLLOW_SECONDS)

    async def write(self) -> None:
        """Write it if it has changed since the last time that this worked."""
        text, _ = await self._share.run(self._source.text_steps())
        if not text or text == self._written:
            return
        directory = str(self._path.parent)
        try:
            await self._files.run(directory, _put, self._path, text, within_seconds=_WRITE_SECONDS)
        except (OSError, FilesFailed) as error:
            problem = f"nodeTopologyFile: {self._path} cannot be written: {getattr(error, 'strerror', None) or error}"
            if problem != self.problem:
                self._context.journal.noted(events.NODE_TOPOLOGY_UNWRITTEN, reason=problem)
            self.problem = problem
            return
        self._written, self.problem = text, ""

    def warnings(self) -> tuple[str, ...]:
        """Return the problem as a sentence."""
        return (self.problem,) if self.problem else ()


def _put(path: Path, content: bytes) -> None:
    put_file(path, content, _MODE, is_synced=False)
