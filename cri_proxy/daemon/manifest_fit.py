"""Answer where the pods of pasted manifests would land now: a process of its own reads them, the node decides in turns.

One question at a time. The policy, the snapshot and the decisions are those of ``cri-proxy fit`` (``intercept.fit``).
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from cri_proxy.clock import Clock
from cri_proxy.foreign_text import admit
from cri_proxy.http.limits import FairShare
from cri_proxy.http.messages import HttpRequest
from cri_proxy.intercept.fit import FitView, fit
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.node import Node

MOST_BYTES: Final = 64 << 10
READ_SECONDS: Final = 10.0
BUSY: Final = "another question is being answered; ask again in a moment"
_PROGRAM: Final = "from cri_proxy.simulate.plan.fit_request import main; main()"
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1123, a label


class ManifestFit:
    """Answers one question at a time, and rests for as long as reading the last one took."""

    def __init__(self, node: Node, reader_now: Callable[[], Reader], clock: Clock) -> None:
        """``reader_now`` returns the reader of CRI messages that is in force."""
        self._node, self._reader_now = node, reader_now
        self._share = FairShare(clock)
        self._is_busy = False

    async def answer(self, request: HttpRequest) -> FitView:
        """Return where the pods of the manifests in the body would land; ``namespace`` is for those that set none."""
        namespace = request.query.get("namespace") or "default"
        if problem := _problem_of(request.body, namespace):
            return FitView(problem=problem)
        if self._is_busy:
            return FitView(problem=BUSY)
        self._is_busy = True
        try:
            return await self._answer(request, namespace)
        finally:
            self._is_busy = False

    async def _answer(self, request: HttpRequest, namespace: str) -> FitView:
        memory_bytes = sum(node.memory_bytes for node in self._node.context.ledger.policy.machine.nodes)
        # In a turn: it rests for as long as the process took, however often clients ask.
        async with self._share.turn():
            question = await asyncio.to_thread(read_question, request.body, namespace, memory_bytes)
        if not question.startswith("["):
            return FitView(problem=_problem_in(question))
        return await fit(
            self._node,
            self._reader_now(),
            question.encode(),
            turn=request.turn,
            is_abandoned=request.is_abandoned,
        )


def _problem_of(body: bytes, namespace: str) -> str:
    """Return why this is no question, '' where it may be one."""
    if len(body) > MOST_BYTES:
        return f"more than {MOST_BYTES >> 10} KiB of manifests"
    if not _NAMESPACE.fullmatch(namespace):
        return admit(f"expected the name of a namespace, got {namespace!r}", 256)
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"expected UTF-8: {error}"
    return ""


def _problem_in(answer: str) -> str:
    try:
        return admit(str(json.loads(answer)["problem"]))
    except (ValueError, LookupError, TypeError):
        return "the manifests cannot be read: their reader answered something else"


def read_question(manifests: bytes, namespace: str, memory_bytes: int, seconds: float = READ_SECONDS) -> str:
    """Return the question that these manifests are, or the problem with them, as JSON. Blocks, for at most so long."""
    # -P: a file in the working directory must not be taken for a module (python(1)).
    command = (sys.executable, "-P", "-c", _PROGRAM, str(memory_bytes), namespace)
    found_at = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8"}
    try:
        done = subprocess.run(command, input=manifests, capture_output=True, timeout=seconds, env=found_at, check=False)
    except subprocess.TimeoutExpired:
        return json.dumps({"problem": f"the manifests were not read within {seconds:.3g} s"})
    except OSError as error:
        return json.dumps({"problem": f"no process to read them: {error.strerror}"})
    if done.returncode:
        return json.dumps({"problem": "the manifests take more time or memory than they may"})
    return done.stdout.decode()
