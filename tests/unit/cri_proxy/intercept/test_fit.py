import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext

import pytest

from cri_proxy.clock import SystemClock
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, create_request, guaranteed, sandbox_config
from cri_proxy.http.limits import FairShare
from cri_proxy.intercept.fit import (
    MOST_BYTES,
    MOST_CONTAINERS,
    AskedCreate,
    ContainerFit,
    FitView,
    decode_creates,
    encode_creates,
    fit,
)
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.tasks import Tasks
from sysfs.descriptions.machine import describe

MACHINE = describe({"packages": 2, "cores": 4, "memory": "8Gi"})


def asked(node: SimulatedNode, *pods: PodSpec) -> list[AskedCreate]:
    kubelet = node.kubelet.node
    return [
        AskedCreate(sandbox_config(pod, kubelet), create_request(pod, container, "", node=kubelet))
        for pod in pods
        for container in pod.containers
    ]


def pod(name: str, mcpu: int, **annotations: str) -> PodSpec:
    keys = tuple((f"{key}.cri-proxy.io", value) for key, value in annotations.items())
    return PodSpec(name, (guaranteed("c", mcpu),), annotations=keys)


SMALL = tuple(pod(f"p{number}", 100) for number in range(20))


@asynccontextmanager
async def recovered() -> AsyncIterator[SimulatedNode]:
    node = SimulatedNode(MACHINE, {"reservedResources": {"cpu": "1"}})
    await node.recover()
    yield node
    await node.close()


async def fits(*pods: PodSpec, standing: Sequence[PodSpec] = (), **options: object) -> tuple[ContainerFit, ...]:
    """What fits beside pods that stand, which must stay as they are."""
    node = SimulatedNode(MACHINE, {"reservedResources": {"cpu": "1"}, **options})
    await node.recover()
    for each in standing:
        kubelet = node.kubelet
        sandbox_id = await kubelet.run_sandbox_as(sandbox_config(each, kubelet.node))
        await kubelet.start(
            await kubelet.create_as(create_request(each, each.containers[0], sandbox_id, node=kubelet.node))
        )
    await node.settle()
    ledger, updates = node.node.context.ledger, node.runtime.update_count
    before = ledger.version, tuple(ledger.rows())
    view = await fit(node.node, node.interceptor.reader, encode_creates(asked(node, *pods)).encode(), turn=nullcontext)
    assert (ledger.version, tuple(ledger.rows()), node.runtime.update_count) == (*before, updates)
    await node.close()
    assert view.problem == ""
    return view.containers


async def test_a_container_is_told_where_it_would_land() -> None:
    (found,) = await fits(pod("web", 2000))
    assert (found.container, found.refused, found.kind) == ("default/web/c", "", "exclusive")
    assert len(found.own_cpus) > 0
    assert found.cpus == found.own_cpus
    assert found.reasons


async def test_each_one_counts_for_the_next() -> None:
    one, two, three = await fits(pod("a", 3000), pod("b", 3000), pod("c", 3000))
    assert {one.own_cpus, two.own_cpus} == {"1-3", "4-6"}
    assert "wanted 3 exclusive CPUs" in three.refused


async def test_who_has_to_narrow_or_move_is_told() -> None:
    sharer = PodSpec("log", (ContainerSpec("c", 100),))
    (found,) = await fits(pod("web", 6000), standing=[sharer])
    assert found.narrowed + len(found.moves) == 1


async def test_annotations_that_are_not_understood_are_told_and_refused_where_that_is_the_rule() -> None:
    wrong = PodSpec("web", (guaranteed("c", 1000),), annotations=(("cpu.preserve.cri-proxy.io", "perhaps"),))
    (lenient,), (strict,) = await fits(wrong), await fits(wrong, strictAnnotations=True)
    assert (bool(lenient.problems), lenient.refused) == (True, "")
    assert "perhaps" in strict.refused


async def test_nothing_is_decided_before_the_node_has_recovered() -> None:
    node = SimulatedNode(MACHINE, {})
    view = await fit(node.node, node.interceptor.reader, b"[]", turn=nullcontext)
    assert "does not decide yet" in view.problem
    await node.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[1]",
        b'[["a", "b"]]',
        b'[["!!!!", ""]]',
        b"\xff",
        b"[" * 100_000,
        b" " * (MOST_BYTES + 1),
        json.dumps([["", ""]] * (MOST_CONTAINERS + 1)).encode(),
        json.dumps([[base64.b64encode(b"\xff\xff").decode(), ""]]).encode(),
    ],
)
async def test_a_question_that_cannot_be_read_has_a_problem(body: bytes) -> None:
    node = SimulatedNode(MACHINE, {})
    await node.recover()
    view = await fit(node.node, node.interceptor.reader, body, turn=nullcontext)
    assert view == FitView(problem=view.problem)
    assert view.problem.startswith("the question cannot be read")
    await node.close()


def test_messages_come_back_without_what_no_decision_looks_at() -> None:
    node, spec = KubeletNode(1 << 30), pod("web", 1000)
    asked = AskedCreate(sandbox_config(spec, node), create_request(spec, spec.containers[0], "", node=node))
    (found,) = decode_creates(encode_creates([asked]).encode())
    sandbox, config = asked.sandbox, asked.create.config
    assert sandbox.log_directory
    assert config.linux.security_context.masked_paths
    sandbox.ClearField("log_directory")
    sandbox.ClearField("dns_config")
    for name in ("command", "args", "log_path"):
        config.ClearField(name)
    config.linux.security_context.ClearField("masked_paths")
    config.linux.security_context.ClearField("readonly_paths")
    assert found.sandbox == sandbox
    assert found.create.config == config
    assert not found.create.HasField("sandbox_config")


def test_a_question_about_as_many_as_may_be_asked_fits_with_long_names() -> None:
    node = KubeletNode(1 << 30)
    specs = [pod(f"{'x' * 200}-{number}", 1000) for number in range(MOST_CONTAINERS)]
    asked = [
        AskedCreate(sandbox_config(spec, node), create_request(spec, spec.containers[0], "", node=node))
        for spec in specs
    ]
    assert len(encode_creates(asked)) < MOST_BYTES


async def test_other_work_goes_on_while_many_are_decided() -> None:
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async with recovered() as node:
        body = encode_creates(asked(node, *SMALL)).encode()
        tasks = Tasks()
        tasks.start(count())
        await asyncio.sleep(0)
        before = passes
        await fit(node.node, node.interceptor.reader, body, turn=FairShare(SystemClock()).turn)
        assert passes - before >= len(SMALL)
        await tasks.cancel()


async def test_every_decision_waits_for_a_turn_which_all_questions_share() -> None:
    inside, most_inside, turns = 0, 0, 0
    share = FairShare(SystemClock())

    @asynccontextmanager
    async def turn() -> AsyncIterator[None]:
        nonlocal inside, most_inside, turns
        async with share.turn():
            inside, turns = inside + 1, turns + 1
            most_inside = max(most_inside, inside)
            yield
            inside -= 1

    async with recovered() as node:
        body = encode_creates(asked(node, *SMALL)).encode()
        views = await asyncio.gather(*(fit(node.node, node.interceptor.reader, body, turn=turn) for _ in range(3)))
    assert views[0] == views[1] == views[2]
    assert (turns, most_inside) == (3 * (1 + len(SMALL)), 1)


async def test_what_is_asked_by_a_client_that_has_left_is_not_decided_on() -> None:
    asked_so_far = iter(range(len(SMALL)))
    async with recovered() as node:
        body = encode_creates(asked(node, *SMALL)).encode()
        reader, left = node.interceptor.reader, lambda: next(asked_so_far) >= 3
        view = await fit(node.node, reader, body, turn=nullcontext, is_abandoned=left)
    assert view == FitView(problem="the question was abandoned")
    assert next(asked_so_far) == 4
