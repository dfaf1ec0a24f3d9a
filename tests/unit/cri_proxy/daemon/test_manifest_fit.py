import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cri_proxy.clock import SystemClock
from cri_proxy.daemon import manifest_fit
from cri_proxy.daemon.manifest_fit import BUSY, MOST_BYTES, ManifestFit, read_question
from cri_proxy.http.messages import HttpRequest
from cri_proxy.intercept.fit import FitView
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.tasks import Tasks
from sysfs.descriptions.machine import describe

POD = b"kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}}}]}\n"


def question(body: bytes, **query: str) -> HttpRequest:
    return HttpRequest("POST", "/", query, body=body)


@asynccontextmanager
async def asking() -> AsyncIterator[ManifestFit]:
    node = SimulatedNode(describe({"packages": 2, "cores": 4, "memory": "8Gi"}), {})
    await node.recover()
    yield ManifestFit(node.node, lambda: node.interceptor.reader, SystemClock())
    await node.close()


async def answer(body: bytes, **query: str) -> FitView:
    async with asking() as fit:
        return await fit.answer(question(body, **query))


async def test_a_pasted_pod_is_placed() -> None:
    """Through the process that reads it."""
    view = await answer(POD, namespace="shop")
    (placed,) = view.containers
    assert (placed.container, placed.kind, view.problem) == ("shop/web/c", "exclusive", "")
    assert placed.own_cpus


@pytest.mark.parametrize(
    ("body", "namespace", "problem"),
    [
        (b"x" * (MOST_BYTES + 1), "default", "more than 64 KiB"),
        (b"\xff", "default", "UTF-8"),
        (POD, "<img src=x>", "the name of a namespace"),
        (POD, "--help", "the name of a namespace"),
    ],
)
async def test_what_is_no_question_starts_no_process(
    body: bytes, namespace: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere")
    assert problem in (await answer(body, namespace=namespace)).problem


async def test_the_words_of_a_manifest_come_escaped() -> None:
    view = await answer('kind: Pod\nmetadata: {name: "\u202e"}\nspec: {containers: 3}\n'.encode())
    assert view.problem.isprintable()


async def test_one_question_is_answered_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, answers = Tasks(), []
    async with asking() as fit:

        async def ask() -> None:
            answers.append(await fit.answer(question(POD)))

        monkeypatch.setattr(manifest_fit, "read_question", lambda *words: json.dumps({"problem": "none"}))
        await asyncio.gather(tasks.start(ask()), tasks.start(ask()))
        assert sorted(each.problem for each in answers) == [BUSY, "none"]
        assert (await fit.answer(question(POD))).problem == "none"


def test_a_reader_that_takes_too_long_is_ended() -> None:
    assert "not read within 0.001 s" in read_question(POD, "default", 1 << 30, seconds=0.001)


def test_a_reader_that_cannot_start_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere")
    assert "no process" in read_question(POD, "default", 1 << 30)


def test_a_reader_that_fails_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "more time or memory" in read_question(POD, "default", 1 << 30)
