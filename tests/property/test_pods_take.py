"""Whatever the author of a pod writes into annotations and variables, others keep their CPUs and devices.

Each row of the tables of annotations is played with its own values and with hostile ones, and so is each variable that
may name devices or CPUs.
"""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cri_proxy.config.load import load_config
from cri_proxy.cri.annotations.foreign_rows import EVERY_ROW, ForeignAnnotation
from cri_proxy.cri.annotations.forms import Annotation
from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.annotations.rules import Restriction
from cri_proxy.cri.claim import VARIABLE_PREFIX as OF_CLAIMS
from cri_proxy.cri.device_names.variables import VARIABLE_PREFIXES
from cri_proxy.cri.write import DEVICES_VARIABLE
from cri_proxy.cri_client.pods import ContainerSpec, PodAmounts, PodSpec, guaranteed
from cri_proxy.file_workers import PLAIN_THREADS
from cri_proxy.intercept.locality import LocalityLookup
from policies.base import ContainerKey, CpuKind, Grant, Request
from policies.device_grants import by_cost, by_place
from policies.devices import VARIABLE_PREFIX as OF_PLUGIN
from tests.fakes.device_tree import made_up_devices, write_devices
from tests.fakes.full_node import DOMAINS, FullNode, Wishes, full_machine, shapes

Row = Annotation[object] | ForeignAnnotation
SHARED_NODE = Path(__file__).parents[2] / "configs" / "shared-node.yaml"
VARIABLES = (*VARIABLE_PREFIXES, OF_CLAIMS, f"{OF_PLUGIN}GPU", f"{OF_PLUGIN}RDMA", DEVICES_VARIABLE)
ROOM_MCPU = 6000
ONE_DEVICE = ("example.com/gpu=1", "nvidia.com/gpu=1,koordinator.sh/rdma=1")
GREEDY = (
    json.dumps({"cpuset": "4"}),
    json.dumps({"cpuset": "8-15"}),
    json.dumps({"containers": {name: {"requests": {"cpu": "16"}, "limits": {"cpu": "16"}} for name in ("c0", "c1")}}),
    *ONE_DEVICE,
    '{"gpu": {"exclusivePolicy": "DeviceLevel", "allocateStrategy": "ApplyForAll"}}',
)


def said(row: Row, value: str) -> dict[str, str]:
    return {row.key if isinstance(row, ForeignAnnotation) else f"{DOMAINS[0]}/{row.key}": value}


async def pods(row: Row, wishes: Wishes) -> dict[tuple[Request, ...], PodSpec]:
    """All that pods of any shape ask for with any value of this row; most values are ignored, and are one."""
    values = (*row.examples, row.bad_example, *GREEDY)
    specs = (spec for value in values for spec in shapes(said(row, value)))
    return {await wishes.of(spec): spec for spec in specs}


async def filled(room_mcpu: int = ROOM_MCPU) -> FullNode:
    node = FullNode(room_mcpu)
    await node.fill()
    return node


def claiming(cpus: str) -> dict[str, str]:
    return {RESOURCE_STATUS: json.dumps({"cpuset": cpus})}


@pytest.mark.parametrize("row", EVERY_ROW, ids=lambda row: row.key)
async def test_what_a_pod_says_takes_nothing_but_what_it_pays_for(row: Row) -> None:
    nodes = await filled(room_mcpu=0), await filled()
    for requests, spec in (await pods(row, Wishes())).items():
        for node in nodes:
            node.play(spec, *requests, takes=bool(row.takes))


@pytest.mark.parametrize("row", [row for row in EVERY_ROW if row.takes], ids=lambda row: row.key)
async def test_on_a_shared_node_no_row_takes_what_the_table_says(row: Row) -> None:
    node, wishes = await filled(), Wishes(load_config(SHARED_NODE).config.restricted_annotations)
    for requests, spec in (await pods(row, wishes)).items():
        node.play(spec, *requests)
        assert all(request.claim is None for request in requests)


@pytest.mark.parametrize("first", range(16))
async def test_a_claim_takes_no_cpu_that_its_pod_does_not_pay_for(first: int) -> None:
    node = await filled()
    for cpus in (str(first), f"{first}-{first + 1}", f"{first},{first // 2 + 3},15"):
        for spec in shapes(claiming(cpus)):
            requests = await Wishes().of(spec)
            if any(request.claim for request in requests):
                node.play(spec, *requests, takes=True)


async def test_pods_that_request_next_to_nothing_claim_no_cpu() -> None:
    """63 pods of 10m owned 63 of 80 CPUs."""
    node = await filled()
    before = node.held
    for cpu in range(16):
        spec = PodSpec(f"p{cpu}", (ContainerSpec("c0", 10),), annotations=tuple(claiming(str(cpu)).items()))
        (grant,) = node.run(*await Wishes().of(spec))
        node.check(before, spec)
        assert grant.kind is CpuKind.SHARED


@pytest.mark.parametrize("seed", range(20))
async def test_what_a_pod_says_in_several_annotations_takes_no_more_than_each_does(seed: int) -> None:
    random, node = Random(seed), await filled()
    for _ in range(8):
        rows = random.sample(EVERY_ROW, 3)
        wish = {key: text for row in rows for key, text in said(row, random.choice((*row.examples, *GREEDY))).items()}
        spec = random.choice([*shapes(wish | claiming(str(random.randrange(16))) if random.random() < 0.5 else wish)])
        node.play(spec, *await Wishes().of(spec), takes=True)


def random_pod(random: Random) -> PodSpec:
    """A pod of four containers, or one with resources of its own."""
    sizes = [random.choice((0, 500, 1000, 1000, 1500, 2000)) for _ in range(4)]
    if random.random() < 0.3:
        own = [ContainerSpec(f"c{n}", size if random.random() < 0.3 else 0) for n, size in enumerate(sizes)]
        request_mcpu = max(1000, sum(each.cpu_request_mcpu for each in own))
        amounts = PodAmounts(request_mcpu, random.choice((request_mcpu, 2 * request_mcpu)), 64 << 20, 64 << 20)
        return PodSpec("p", tuple(own), amounts=amounts)
    make = random.choice((ContainerSpec, guaranteed))
    return PodSpec("p", tuple(make(f"c{n}", size) for n, size in enumerate(sizes)))


@pytest.mark.parametrize("seed", range(40))
async def test_a_pod_whose_annotation_changes_while_containers_come_and_go_has_no_more_cpus(seed: int) -> None:
    random, node = Random(seed), await filled()
    before, spec = node.held, random_pod(random)
    for _ in range(16):
        container, other, first = *random.choices(spec.containers, k=2), random.randrange(2, 15)
        for ended in (container, other) if random.random() < 0.3 else (container,):
            node.held = node.held.without(ContainerKey(spec.pod_uid, ended.name))
        wish = claiming(f"{first}-{first + random.randrange(3)}") if random.random() < 0.6 else {}
        node.run(await Wishes().of_container(replace(spec, annotations=tuple(wish.items())), container))
        node.check(before, spec)


@pytest.mark.parametrize("prefix", VARIABLES)
async def test_a_variable_of_a_pod_takes_nothing(prefix: str, tmp_path: Path) -> None:
    """Devices that it names may say where the container should be. They stay those of others."""
    node, devices = await filled(), made_up_devices(full_machine())
    write_devices(tmp_path, full_machine(), devices)
    wishes = Wishes(hints_of=LocalityLookup(tmp_path, PLAIN_THREADS).of)
    name = f"{prefix}X" if prefix.endswith("_") else prefix
    values = ("all", "0", "4-5", "example.com/gpu/0", *(text for d in devices[:3] for text in (d.address, d.uuid)))
    plays = [(spec, {name: value}) for value in (*values, ",".join(values)) for spec in shapes({})]
    for requests, spec in {await wishes.of(*play): play[0] for play in plays}.items():
        node.play(spec, *requests)


@pytest.mark.parametrize("key", ["cpu.preserve", "prefer-reserved-cpus"])
async def test_without_the_operators_word_no_pod_runs_on_cpus_of_others(key: str) -> None:
    node = await filled()
    for spec in shapes({f"{DOMAINS[0]}/{key}": "true"}):
        for grant in node.play(spec, *await Wishes().of(spec)):
            assert grant.kind not in (CpuKind.PRESERVE, CpuKind.RESERVED)


async def test_the_plays_see_what_a_row_takes() -> None:
    """Else no pod of theirs would have got so far."""
    node = await filled()
    played: list[Grant] = []
    wishes = [said(row, text) for row in EVERY_ROW if row.takes for text in (row.examples[0], *ONE_DEVICE)]
    everywhere = Wishes((Restriction(("cpu.preserve", "prefer-reserved-cpus"), ("*",)),))
    for spec in (spec for wish in wishes for spec in shapes(wish)):
        played += node.play(spec, *await everywhere.of(spec), takes=True)
    assert {grant.kind for grant in played} >= {CpuKind.PRESERVE, CpuKind.RESERVED, CpuKind.EXCLUSIVE, CpuKind.MIXED}
    assert any(grant.request.claim is not None and grant.shares_cpus for grant in played)
    assert any(by_cost(grant.devices) for grant in played) and any(by_place(grant.devices) for grant in played)
