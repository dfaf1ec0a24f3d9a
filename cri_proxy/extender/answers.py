"""Answer the scheduler: which nodes can hold a pod's GPUs, and how well their links suit it, as points from 0 to 10.

A node about which too little is known is never filtered out, and has the fewest points: nothing published, a word that
cannot be read, or ``nvidia.com/gpu`` that counts parts of GPUs, so that its links say nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from http import HTTPStatus
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.extender import messages
from cri_proxy.extender.demand import QuestionError
from cri_proxy.extender.directory import LinkDirectory
from cri_proxy.extender.metrics import DURATION, NODES, REQUESTS
from cri_proxy.extender.scores import NodeScores
from cri_proxy.file_workers import FilesFailed, FileWorkers
from cri_proxy.foreign_text import admit
from cri_proxy.http.messages import JSON, HttpRequest, PostHandler, Response
from cri_proxy.logs import Log
from cri_proxy.metrics.counters import Counters
from policies.devices.links import FULL_SCORE, free_text, ranked_points

FILTER_PATH: Final = "/extender/filter"
PRIORITIZE_PATH: Final = "/extender/prioritize"
SCORE_SECONDS: Final = 2.0
"""For scores that are not known yet: kube-scheduler waits five seconds unless its configuration says otherwise."""
LINKS_SECONDS: Final = 1.0
"""For the files of nodes. One of them may lie on a disk that does not answer, and a question may not wait for it."""
BEGIN_SECONDS: Final = 10.0
"""For all files at the start; until then nothing is answered."""
LINKS: Final = "the directory of links"
_PROBLEM_BYTES: Final = 300
_MAX_REMEMBERED: Final = 10_000
# With any other status than 200 the scheduler leaves the body unread. Its type for a filter's answer has a field for an
# error, which it shows at the pod; a list of priorities has none. Source: pkg/scheduler/extender.go of Kubernetes.
_REFUSALS: Final = {"filter": HTTPStatus.OK, "prioritize": HTTPStatus.BAD_REQUEST}


@dataclass(frozen=True, slots=True)
class ScoredNode:
    """A node with its exact score, None where ``problem`` is why it has none; ``state`` is a label of the metrics."""

    name: str
    state: str
    exact: Fraction | None = None
    problem: str = ""


class Extender:
    """Handlers of ``filter`` and ``prioritize``."""

    def __init__(self, *, log: Log, clock: Clock, counters: Counters, directory: LinkDirectory | None = None) -> None:
        """``directory`` has what nodes publish beside what they carry themselves."""
        self._log, self._clock, self._counters, self._directory = log, clock, counters, directory
        self._scores = NodeScores()
        # Sixteen pairs of 32 GPUs take seconds. Others are answered meanwhile, and what comes late is kept for later.
        self._thread = ThreadPoolExecutor(1, "scores")
        self._files = FileWorkers(None, most=1)
        self._hang = ""
        self._told: dict[str, str] = {}

    async def begin(self) -> None:
        """Read the directory of links: else the first question would have the time of one for all of its files."""
        if self._directory is None:
            return
        try:
            await self._files.run(LINKS, self._directory.read_all, within_seconds=BEGIN_SECONDS)
        except FilesFailed as error:
            self._log.warning(events.LINKS_UNREADABLE, node=None, reason=f"{self._directory.path}: {error.problem}")

    @property
    def handlers(self) -> Mapping[str, PostHandler]:
        """The handler of each path."""
        return {FILTER_PATH: partial(self._answer, "filter"), PRIORITIZE_PATH: partial(self._answer, "prioritize")}

    async def _answer(self, verb: str, request: HttpRequest) -> Response:
        """Answer ExtenderArgs with an ExtenderFilterResult, or with a HostPriorityList."""
        began_seconds = self._clock.monotonic_seconds()
        try:
            question = await self._with_files(messages.read_question(request.body))
            body = await (self._filtered(question) if verb == "filter" else self._prioritized(question))
        except QuestionError as error:
            self._counters.add(REQUESTS, verb, "refused")
            self._log.warning(events.QUESTION_REFUSED, verb=verb, reason=admit(str(error), _PROBLEM_BYTES))
            return Response(_REFUSALS[verb], JSON, messages.error_answer(error))
        self._counters.add(REQUESTS, verb, "answered" if question.demand.most else "skipped")
        self._counters.measure(DURATION, self._clock.monotonic_seconds() - began_seconds, verb)
        return Response(HTTPStatus.OK, JSON, body)

    async def _with_files(self, question: messages.Question) -> messages.Question:
        """Return the question with the words of the directory for nodes that publish nothing themselves."""
        missing = [node.name for node in question.candidates if not node.published]
        # A pod without GPUs, as most are, waits for no disk.
        if self._directory is None or not missing or not question.demand.most:
            return question
        try:
            found = await self._files.run(LINKS, self._directory.words, missing, within_seconds=LINKS_SECONDS)
            self._hang = ""
        except FilesFailed as error:  # a disk that hangs: what the files said last stays
            if not self._hang:
                self._log.warning(events.LINKS_UNREADABLE, node=None, reason=f"{self._directory.path}: {error.problem}")
            self._hang = error.problem
            found = self._directory.kept(missing)
        nodes = (
            replace(node, published=file.word, problem=file.problem) if (file := found.get(node.name)) else node
            for node in question.candidates
        )
        return replace(question, candidates=tuple(nodes))

    async def _filtered(self, question: messages.Question) -> bytes:
        failed: dict[str, str] = {}
        most = question.demand.most
        if most:
            for node in question.candidates:
                links = self._scores.links(node.published) if node.published else None
                # Too little is known of such a node to filter it out.
                if links is None or links.matrix is None or _counts_parts(node, links.gpus):
                    continue
                # All GPUs count here: the scheduler checks by itself how many are free.
                if most > links.gpus:
                    failed[node.name] = f"{most} GPUs requested ({question.demand}), the node has {links.gpus}"
            self._log.info(
                events.NODES_FILTERED,
                pod=question.pod,
                gpus=str(question.demand),
                nodes=len(question.candidates),
                failed=len(failed),
            )
        return messages.filter_answer(question, failed)

    async def _prioritized(self, question: messages.Question) -> bytes:
        if not question.demand.has_pairs:
            return messages.priority_answer([{"Host": node.name, "Score": 0} for node in question.candidates])
        rows = await self._scored(question.candidates, question.demand.sizes)
        points = ranked_points([row.exact for row in rows], FULL_SCORE)
        self._tell(question, rows, points)
        return messages.priority_answer([_row(row, score) for row, score in zip(rows, points, strict=True)])

    async def _scored(self, nodes: Sequence[messages.Candidate], sizes: tuple[int, ...]) -> list[ScoredNode]:
        """Return the nodes with their exact scores; when the time is over, those that are not known yet go without."""
        until_seconds = self._clock.monotonic_seconds() + SCORE_SECONDS
        rows = []
        for node in nodes:
            row = self._known(node)
            if row is None and self._scores.is_known(node.published, sizes, node.free):
                row = _with_score(node, self._scores.exact(node.published, sizes, node.free), sum(sizes))
            elif row is None:
                row = await self._newly_scored(node, sizes, until_seconds - self._clock.monotonic_seconds())
            self._counters.add(NODES, row.state)
            rows.append(replace(row, problem=row.problem or node.problem))
        return rows

    async def _newly_scored(
        self, node: messages.Candidate, sizes: tuple[int, ...], within_seconds: float
    ) -> ScoredNode:
        score = partial(self._scores.exact, node.published, sizes, node.free)
        scored = asyncio.get_running_loop().run_in_executor(self._thread, score)
        try:
            exact = await asyncio.wait_for(scored, max(0.0, within_seconds))
        except TimeoutError:
            # The thread goes on, and its score is there for the next question.
            return ScoredNode(node.name, "late", problem="not scored in time: it will be with a later pod")
        return _with_score(node, exact, sum(sizes))

    def _known(self, node: messages.Candidate) -> ScoredNode | None:
        """Return a node that has no score; None: it is to be scored."""
        if node.problem and not node.published:
            return ScoredNode(node.name, "malformed", problem=node.problem)
        if not node.published:
            return ScoredNode(node.name, "unpublished", problem="no GPU links published")
        links = self._scores.links(node.published)
        if links.matrix is None:
            return ScoredNode(node.name, "malformed", problem=links.problem)
        if _counts_parts(node, links.gpus):
            problem = f"{node.gpus} GPUs counted and {links.gpus} published: they are parts, which have no links"
            return ScoredNode(node.name, "parts", problem=problem)
        return None

    def _tell(self, question: messages.Question, rows: Sequence[ScoredNode], points: Sequence[int]) -> None:
        """Log the outcome, and each word that cannot be read when it is seen first."""
        for row in rows:
            if row.problem and row.state in ("malformed", "scored") and self._told.get(row.name) != row.problem:
                self._told[row.name] = row.problem
                self._log.warning(
                    events.LINKS_UNREADABLE,
                    node=admit(row.name, _PROBLEM_BYTES),
                    reason=admit(row.problem, _PROBLEM_BYTES),
                )
        while len(self._told) > _MAX_REMEMBERED:
            self._told.pop(next(iter(self._told)))
        best = max(range(len(rows)), key=lambda i: points[i], default=None)
        exact = rows[best].exact if best is not None else None
        self._log.info(
            events.NODES_RANKED,
            pod=question.pod,
            gpus=str(question.demand),
            nodes=len(rows),
            scored=sum(row.exact is not None for row in rows),
            best=None if best is None or exact is None else admit(rows[best].name, _PROBLEM_BYTES),
            exact=None if exact is None else float(exact),
        )


def _counts_parts(node: messages.Candidate, published: int) -> bool:
    """Return whether the node counts more GPUs than it has: time slices, or MIG devices under the same name."""
    return node.gpus is not None and node.gpus > published


def _with_score(node: messages.Candidate, exact: Fraction | None, count: int) -> ScoredNode:
    if exact is not None:
        return ScoredNode(node.name, "scored", exact)
    if node.free is not None:
        return ScoredNode(node.name, "busy", problem=f"fewer than {count} GPUs free: {free_text(node.free)}")
    return ScoredNode(node.name, "short", problem=f"fewer than {count} GPUs published")


def _row(row: ScoredNode, points: int) -> Mapping[str, object]:
    """Return a HostPriority, with what people ask for beside it."""
    shown: dict[str, object] = {"Host": row.name, "Score": points}
    if row.exact is not None:
        shown |= {"Exact": float(row.exact), "Ratio": str(row.exact / FULL_SCORE)}
    return shown | ({"Problem": admit(row.problem, _PROBLEM_BYTES)} if row.problem else {})
