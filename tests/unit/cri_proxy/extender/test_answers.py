"""Answers to questions about pods and nodes, without HTTP; tests of ``server`` ask over it."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cri_proxy.clock import Clock
from cri_proxy.extender.answers import SCORE_SECONDS, Extender
from cri_proxy.extender.directory import FileWord, LinkDirectory
from cri_proxy.extender.metrics import NODES, REQUESTS, TABLE
from cri_proxy.http.messages import HttpRequest, Response
from cri_proxy.metrics.counters import Counters
from policies.devices.links import link_annotation
from tests.fakes.clock import ManualClock
from tests.fakes.counters import count_of
from tests.fakes.scheduler import Json, arguments, container, named_arguments, node, pod
from tests.unit.policies.devices.links.machines import kep_690

KEP = link_annotation(kep_690())
SLOW = "v1.0t7.ux8.sx28"


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def debug(self, event: str, **fields: object) -> None:
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: object) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        self.lines.append(("error", event, fields))


class Asked:
    """An extender with its log and counters."""

    def __init__(self, directory: Path | LinkDirectory | None = None, clock: Clock | None = None) -> None:
        self.log, self.counters = Lines(), Counters(TABLE)
        links = LinkDirectory(directory) if isinstance(directory, Path) else directory
        self.extender = Extender(log=self.log, clock=clock or ManualClock(), counters=self.counters, directory=links)

    async def response(self, verb: str, body: bytes) -> Response:
        request = HttpRequest("POST", f"/extender/{verb}", {}, body=body)
        answer = await self.extender.handlers[f"/extender/{verb}"](request)
        assert isinstance(answer, Response)
        return answer

    async def prioritized(self, question: Json) -> dict[str, Json]:
        response = await self.response("prioritize", json.dumps(question).encode())
        return {row["Host"]: row for row in json.loads(response.body)}

    async def scores(self, question: Json) -> dict[str, int]:
        return {name: row["Score"] for name, row in (await self.prioritized(question)).items()}

    async def failed(self, question: Json) -> dict[str, str]:
        response = await self.response("filter", json.dumps(question).encode())
        found: dict[str, str] = json.loads(response.body)["FailedAndUnresolvableNodes"]
        return found


@pytest.mark.parametrize("gpus", [(0,), (1,), (1, 1)])
async def test_a_pod_without_pairs_of_gpus_prefers_no_node(gpus: tuple[int, ...]) -> None:
    nodes = [node("a", KEP), node("b"), node("c", "v9")]
    assert await Asked().scores(arguments(pod(*gpus), nodes)) == {"a": 0, "b": 0, "c": 0}


async def test_small_links_are_told_from_none_though_their_score_is_0() -> None:
    """Eight GPUs across sockets have 280 of 50400 points, which KEP-690 rounds to 0."""
    found = await Asked().prioritized(arguments(pod(8), [node("a", SLOW), node("b", "v1.0t7.ux8.ux28")]))
    assert (found["a"]["Score"], found["b"]["Score"]) == (1, 0)
    assert (found["a"]["Ratio"], found["b"]["Ratio"]) == ("1/180", "0")
    assert found["a"]["Exact"] == pytest.approx(5 / 9)


@pytest.mark.parametrize(
    ("gpus", "ratio"), [((2,), "1/9"), ((3,), "5/54"), ((4,), "1/12"), ((8,), "1/20"), ((2, 2), "1/9")]
)
async def test_each_size_has_the_score_of_its_best_cut(gpus: tuple[int, ...], ratio: str) -> None:
    found = await Asked().prioritized(arguments(pod(*gpus), [node("a", KEP)]))
    assert Fraction(found["a"]["Ratio"]) == Fraction(ratio)


async def test_a_node_that_publishes_nothing_is_last_and_not_filtered() -> None:
    question = arguments(pod(2), [node("a"), node("b", SLOW), node("c", KEP)])
    asked = Asked()
    assert await asked.scores(question) == {"a": 0, "b": 1, "c": 2}
    assert await asked.failed(question) == {}


async def test_what_cannot_be_read_counts_as_nothing_published_and_is_told_once() -> None:
    question = arguments(pod(2), [node("a", "v1.0t7.nonsense"), node("b", SLOW)])
    asked = Asked()
    for _ in range(2):
        found = await asked.prioritized(question)
        assert (found["a"]["Score"], found["b"]["Score"]) == (0, 1)
        assert "2 parts" not in found["a"]["Problem"]
        assert await asked.failed(question) == {}
    told = [fields for level, event, fields in asked.log.lines if event == "links_unreadable"]
    assert [(fields["node"], str(fields["reason"])[:40]) for fields in told] == [("a", found["a"]["Problem"][:40])]
    assert count_of(asked.counters, NODES, "malformed") == 2


async def test_a_node_with_too_few_gpus_for_the_whole_pod_is_filtered_out() -> None:
    question = arguments(pod(4, 5), [node("a", KEP), node("b")])
    asked = Asked()
    assert await asked.failed(question) == {"a": "9 GPUs requested (c0: 4, c1: 5), the node has 8"}
    assert (await asked.prioritized(question))["a"]["Problem"] == "fewer than 9 GPUs published"


async def test_init_containers_share_the_gpus_of_those_behind_them() -> None:
    fits = arguments(pod(4, init=[container("prepare", 8)]), [node("a", KEP)])
    beside = arguments(
        pod(4, init=[container("side", 1, restartPolicy="Always"), container("prepare", 8)]), [node("a", KEP)]
    )
    assert await Asked().failed(fits) == {}
    assert "9 GPUs requested (side: 1, c0: 4)" in (await Asked().failed(beside))["a"]


async def test_parts_of_gpus_have_no_links_and_are_not_counted_against_whole_ones() -> None:
    """A device plugin may share a GPU in time, or give MIG devices, under the name of whole GPUs."""
    question = arguments(pod(16), [node("a", KEP, gpus=32)])
    asked = Asked()
    assert await asked.failed(question) == {}
    assert (await asked.prioritized(question))["a"]["Problem"].startswith("32 GPUs counted and 8 published")


async def test_names_alone_are_answered_from_the_directory(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(KEP)
    (tmp_path / "b").write_text("GPU0 GPU1\n")
    question = named_arguments(pod(4, 5), ["a", "b", "c"])
    asked = Asked(tmp_path)
    assert list(await asked.failed(question)) == ["a"]
    found = await asked.prioritized(named_arguments(pod(2), ["a", "b", "c"]))
    assert {name: row["Score"] for name, row in found.items()} == {"a": 1, "b": 0, "c": 0}
    assert f"{tmp_path}/b:1: column 1: GPU0: the matrix has a column and no row" in found["b"]["Problem"]


async def test_a_node_whose_file_is_spoilt_keeps_its_place_and_the_reason_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(KEP)
    asked, question = Asked(tmp_path), named_arguments(pod(2), ["a", "b"])
    before = await asked.scores(question)
    (tmp_path / "a").write_text("GPU0 GPU1\n")
    assert (await asked.scores(question), await asked.failed(question)) == (before, {})
    assert "no row" in (await asked.prioritized(question))["a"]["Problem"]
    assert len([event for _, event, _ in asked.log.lines if event == "links_unreadable"]) == 1


async def test_names_alone_without_a_directory_are_all_alike() -> None:
    assert await Asked().scores(named_arguments(pod(2), ["a", "b"])) == {"a": 0, "b": 0}


class HungDirectory(LinkDirectory):
    """A directory on a disk that does not answer until it is freed."""

    def __init__(self) -> None:
        super().__init__(Path("/links"))
        self.freed = Event()

    def words(self, names: Iterable[str]) -> Mapping[str, FileWord]:
        self.freed.wait(20)
        return {name: FileWord(KEP) for name in names}


async def test_a_directory_that_hangs_leaves_the_nodes_without_links_and_is_told_once() -> None:
    directory = HungDirectory()
    asked, question = Asked(directory), named_arguments(pod(2), ["a"])
    assert await asked.scores(question) == await asked.scores(question) == {"a": 0}
    assert [fields["reason"] for _, event, fields in asked.log.lines if event == "links_unreadable"] == [
        "/links: no answer within 1 s"
    ]
    directory.freed.set()
    async with asyncio.timeout(20):
        while await asked.scores(question) == {"a": 0}:
            pass


async def test_a_node_that_publishes_itself_needs_no_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("v1.none")
    assert await Asked(tmp_path).failed(arguments(pod(2), [node("a", KEP)])) == {}


class Slow(ManualClock):
    """Each look at the time finds a second gone."""

    def monotonic_seconds(self) -> float:
        self._now += 1.0
        return self._now


async def test_what_is_not_scored_in_time_is_last_and_scored_with_a_later_pod() -> None:
    words = [f"v1.0t1.ux2.v{links}" for links in range(1, 6)]
    question = arguments(pod(2), [node(word, word, gpus=2) for word in words])
    asked = Asked(clock=Slow())
    late = [name for name, row in (await asked.prioritized(question)).items() if "not scored in time" in str(row)]
    assert late == words[int(SCORE_SECONDS) - 1 :]
    for _ in words:
        found = await asked.prioritized(question)
    assert [row["Score"] for row in found.values()] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("verb", "status"), [("filter", 200), ("prioritize", 400)])
async def test_what_is_no_question_is_answered_with_the_reason_where_the_scheduler_reads_it(
    verb: str, status: int
) -> None:
    asked = Asked()
    response = await asked.response(verb, b"{}")
    assert response.status == status
    assert json.loads(response.body)["Error"].startswith("Pod: missing")
    assert count_of(asked.counters, REQUESTS, verb, "refused") == 1
    assert [event for _, event, _ in asked.log.lines] == ["question_refused"]


async def test_the_log_says_which_node_was_the_best_and_why() -> None:
    asked = Asked()
    await asked.prioritized(arguments(pod(2), [node("a", SLOW), node("b", KEP)]))
    (line,) = asked.log.lines
    assert line[:2] == ("info", "nodes_ranked")
    wanted: dict[str, Any] = {"pod": "ml/train-0", "gpus": "c0: 2", "nodes": 2, "scored": 2, "best": "b"}
    assert line[2] == {**wanted, "exact": 100 / 9}


async def test_where_no_node_has_a_score_none_is_called_the_best() -> None:
    asked = Asked()
    await asked.prioritized(named_arguments(pod(2), ["a", "b"]))
    ((_, _, fields),) = asked.log.lines
    assert (fields["scored"], fields["best"], fields["exact"]) == (0, None, None)


async def test_a_pod_without_gpus_is_no_line_of_the_log() -> None:
    asked = Asked()
    await asked.prioritized(arguments(pod(0), [node("a", KEP)]))
    await asked.failed(arguments(pod(0), [node("a", KEP)]))
    assert asked.log.lines == []
    assert count_of(asked.counters, REQUESTS, "prioritize", "skipped") == 1


async def test_long_and_unprintable_names_are_cut_and_cleaned_wherever_they_are_told() -> None:
    asked, a_pod = Asked(), pod(9)
    a_pod["metadata"]["name"] = "\x1b[2J" + "n" * 5000
    a_pod["spec"]["containers"][0]["name"] = "c" * 5000
    question = arguments(a_pod, [node("a" * 5000, KEP)])
    reasons = await asked.failed(question)
    await asked.prioritized(question)
    assert max(len(reason) for reason in reasons.values()) < 500
    assert max(len(str(fields)) for _, _, fields in asked.log.lines) < 1500
    assert "\x1b" not in str([fields["pod"] for _, _, fields in asked.log.lines])


async def test_no_nodes_are_no_answer_and_no_fault() -> None:
    assert await Asked().scores(arguments(pod(2), [])) == {}
    assert await Asked().failed(named_arguments(pod(2), [])) == {}


FULL = "v1.0t7.ux8.v18x28"


def with_free(name: str, word: str, free: str) -> Json:
    return node(name, word, labels={"gpu-links.cri-proxy.io/free": free})


async def test_a_node_is_scored_on_its_free_gpus_alone() -> None:
    """A full node with NVLinks is no better than an empty one without."""
    asked = Asked()
    nodes = [with_free("full", FULL, "3"), with_free("half", KEP, "0.3.5"), with_free("empty", SLOW, "0-7")]
    rows = await asked.prioritized(arguments(pod(2), nodes))
    scores = {name: row["Score"] for name, row in rows.items()}
    assert scores["half"] > scores["empty"] > scores["full"] == 0
    assert rows["full"]["Problem"] == "fewer than 2 GPUs free: 3"
    assert count_of(asked.counters, NODES, "busy") == 1


async def test_a_node_without_a_free_gpu_is_left_to_the_schedulers_own_check() -> None:
    assert await Asked().failed(arguments(pod(2), [with_free("full", FULL, "none")])) == {}


async def test_all_files_are_read_before_the_first_question(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(KEP)
    (tmp_path / ".hidden").write_text("nonsense")
    directory = LinkDirectory(tmp_path)
    asked = Asked(directory)
    await asked.extender.begin()
    assert directory.kept(["a", "b", ".hidden"]) == {name: FileWord(KEP) for name in ("a", "b")}
    await Asked(tmp_path / "absent").extender.begin()
    await Asked().extender.begin()
