from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.annotations.device_filter import LocalityFilter, PathPattern
from cri_proxy.cri.annotations.pod import parse_pod
from cri_proxy.cri.annotations.read import (
    _MAX_NAMED,
    pod_devices,
    without_effect,
    without_refused,
)
from cri_proxy.cri.annotations.resource_managers import CPU_SHARED, OF_OTHERS, OF_PEERS
from cri_proxy.cri.annotations.rules import DOMAINS, AnnotationRules, Restriction
from cri_proxy.cri.annotations.table import TABLE
from policies.base import Affinity, Expression
from policies.device_requests import DeviceAmount, DeviceAsk, summed
from policies.preferences import BurstLevel, CpuDistribution, CpuPriority, PoolStrategy, Preferences, Threads
from sysfs.model import MemoryKind
from tests.fakes.annotations import parse_annotations
from tests.fakes.grants import request

NAME = "io.kubernetes.container.name"
OURS, NRI, SEED = DOMAINS
SEED_AFFINITY = """
container3:
- match:
    key: io.kubernetes.container.name
    operator: In
    values:
    - container1
"""


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        (f"{OURS}/prefer-shared-cpu", "prefer-shared-cpus"),
        (f"prefer-isolated-cpu.{NRI}/pod", "prefer-isolated-cpus"),
        (f"anti-afinity.{SEED}", "anti-affinity"),
        (f"memory-preserve.{OURS}/container.c0", "memory.preserve"),
    ],
)
def test_a_misspelt_key_is_reported_with_what_was_meant(key: str, meant: str) -> None:
    problem = parse_annotations({key: "true"}, "c0").problems[0]
    assert (problem.key, problem.problem.endswith(f"did you mean {meant}?")) == (key, True)


@pytest.mark.parametrize(
    "key",
    [
        "scheduling.koordinator.sh/device-joint-alocate",
        "koordinator.sh/device-joint-allocate",
        f"{OURS}/device-joint-allocate",
        f"device-joint-allocation.{NRI}/pod",
    ],
)
def test_a_key_that_is_nearly_koordinators_is_reported_where_devices_are_asked_for(key: str) -> None:
    asks = {f"{OURS}/device-resources": "nvidia.com/gpu=1"}
    (problem,) = parse_annotations({**asks, key: "{}"}, "c0").problems
    assert problem.key == key
    assert problem.problem.endswith("did you mean scheduling.koordinator.sh/device-joint-allocate?")


@pytest.mark.parametrize("name", ["device-allocated", "device-allocate-hint", "gpu-shared", "resource-spec"])
def test_other_keys_of_koordinators_are_no_misspellings(name: str) -> None:
    asks = {f"{OURS}/device-resources": "nvidia.com/gpu=1"}
    assert parse_annotations({**asks, f"scheduling.koordinator.sh/{name}": "{}"}, "c0").problems == ()
    assert parse_annotations({"scheduling.koordinator.sh/device-joint-alocate": "{}"}, "c0").problems == ()


@pytest.mark.parametrize("key", [f"{OURS}/grant", f"{NRI}/rdtclass", f"irq-affinity.{NRI}/pod", "a.b/c"])
def test_keys_of_the_peers_and_others_are_no_misspellings(key: str) -> None:
    assert parse_annotations({key: "true"}, "c0").problems == ()


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (f"{OURS}/prefer-shared", "there is no prefer-shared; did you mean prefer-shared-cpus?"),
        (f"isolated-cpus.{NRI}/pod", "there is no isolated-cpus; did you mean prefer-isolated-cpus?"),
        (f"prefer-shared-cpus.{OURS}/contaner.c0", "expected /pod or /container.NAME behind the key, got /contaner.c0"),
        (f"prefer-shared-cpus.{OURS}/container.", "expected /pod or /container.NAME behind the key, got /container."),
        (
            f"prefer-shared-cpus.{OURS}/container.C0",
            "expected /pod or /container.NAME behind the key, got /container.C0",
        ),
        (f"affinity.{NRI}/pod", f"write {NRI}/affinity: CONTAINER: ..., a map by container name"),
        (f"affinity.{NRI}/container.c0", f"write {NRI}/affinity: CONTAINER: ..., a map by container name"),
        (f"{OURS}/{'x' * 90}", f"there is no {'x' * 79}…; docs/reference/annotations.md lists the keys"),
    ],
)
def test_a_key_under_which_no_value_is_looked_for_is_a_problem(key: str, problem: str) -> None:
    (found,) = parse_annotations({key: "true"}, "c0").problems
    assert (found.key, found.problem) == (key, problem)


def test_unknown_keys_are_named_up_to_a_bound() -> None:
    problems = parse_annotations({f"{OURS}/wish-{number:02}": "x" for number in range(40)}, "c0").problems
    assert len(problems) == 17
    assert problems[-1].problem == "unknown, after 16 others: see these"


@pytest.mark.parametrize("key", sorted(OF_PEERS))
@pytest.mark.parametrize(
    ("form", "is_told"),
    [("{k}.{d}/container.c0", True), ("{k}.{d}/container.c1", False), ("{k}.{d}/pod", True), ("{d}/{k}", True)],
)
def test_a_known_key_without_effect_is_told_and_is_no_problem(key: str, form: str, is_told: bool) -> None:
    full_key = form.format(k=key, d=NRI)
    parsed = parse_annotations({full_key: "gold", f"{OURS}/prefer-shared-cpus": "true"}, "c0")
    assert without_effect(parsed.origins) == ((full_key,) if is_told else ())
    assert (parsed.problems, parsed.preferences.prefer_shared) == ((), True)


@pytest.mark.parametrize(
    ("key", "is_told"),
    [
        *((key, True) for key in sorted(OF_OTHERS)),
        (f"{CPU_SHARED}c0", True),
        (f"{CPU_SHARED}c1", False),
        ("userns-mode.crio.io", False),
    ],
)
@pytest.mark.parametrize("value", ["disable", '{"cpuset": "0-3"}', "{", ""])
def test_a_known_annotation_of_another_manager_is_told_whatever_it_says(key: str, is_told: bool, value: str) -> None:
    parsed = parse_annotations({key: value, f"{OURS}/prefer-shared-cpus": "true"}, "c0")
    assert without_effect(parsed.origins) == ((key,) if is_told else ())
    assert (parsed.problems, parsed.preferences.prefer_shared) == ((), True)


@pytest.mark.parametrize(("value", "is_told"), [("{c0: gold}", True), ("{c1: gold}", False), ("{", True)])
def test_a_map_without_effect_is_told_where_it_names_the_container(value: str, is_told: bool) -> None:
    assert bool(without_effect(parse_annotations({f"{SEED}/rdtclass": value}, "c0").origins)) is is_told


def test_a_map_that_is_one_value_of_a_peer_is_told_for_every_container() -> None:
    for key in (f"irq-affinity.{NRI}/pod", f"irq-affinity.{NRI}", f"{NRI}/irq-affinity"):
        for value in ("claim: [eth0]", "{claim: [1], mask: ['eth*'], order: mask-first}"):
            assert without_effect(parse_annotations({key: value}, "c0").origins) == (key,)


@pytest.mark.parametrize(
    ("key", "value", "preferences"),
    [
        ("hyperthreads", "own-core", Preferences(threads=Threads.OWN_CORE)),
        ("hide-hyperthreads", "true", Preferences(threads=Threads.HIDE)),
        ("hide-hyperthreads", "false", Preferences(threads=Threads.ANY)),
        ("cpu-distribution", "across-cores", Preferences(distribution=CpuDistribution.ACROSS_CORES)),
        ("strict.single-numa-node", "true", Preferences(single_node=True)),
        ("strict.hyperthreads", "true", Preferences(strict_threads=True)),
        ("prefer-cpu-priority", "low", Preferences(priority=CpuPriority.LOW)),
        ("prefer-cpu-priority", "default", Preferences()),
        ("unlimited-burstable", "l3cache", Preferences(burst_level=BurstLevel.L3_CACHE)),
        ("pool-choice", "pack", Preferences(pool_choice=PoolStrategy.PACK)),
        ("memory-type", "PMEM,DRAM", Preferences(memory_kinds=(MemoryKind.DRAM, MemoryKind.PMEM))),
        ("cold-start", "duration: 60s", Preferences(cold_start_seconds=60)),
        ("strict.topologyhints", "true", Preferences(strict_locality=True)),
        ("pick-resources-by-hints", "false", Preferences(spread_by_locality=False)),
        ("resource-files", "true", Preferences(resource_files=True)),
        ("notify-exec", "[kill, -HUP, 1]", Preferences(notify=("kill", "-HUP", "1"))),
        ("cpu.preserve", "true", Preferences(preserve_cpu=True)),
        ("memory.preserve", "true", Preferences(preserve_memory=True)),
    ],
)
def test_a_value_becomes_its_wish(key: str, value: str, preferences: Preferences) -> None:
    assert parse_annotations({f"{key}.{NRI}/container.c0": value}, "c0").preferences == preferences


def test_strict_memory_needs_its_kind() -> None:
    annotations = {f"{OURS}/memory-type": "hbm", f"{OURS}/strict.memory-type": "true"}
    assert parse_annotations(annotations, "c0").preferences == Preferences(
        memory_kinds=(MemoryKind.HBM,), strict_memory=True
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "threads"),
    [
        ("/pod", "/pod", Threads.OWN_CORE),
        ("/container.c0", "/pod", Threads.OWN_CORE),
        ("/pod", "/container.c0", Threads.HIDE),
    ],
)
def test_of_two_words_on_threads_the_narrower_counts_then_ours(ours: str, theirs: str, threads: Threads) -> None:
    annotations = {f"hyperthreads.{NRI}{ours}": "own-core", f"hide-hyperthreads.{OURS}{theirs}": "true"}
    parsed = parse_annotations(annotations, "c0")
    key = f"hyperthreads.{NRI}{ours}" if threads is Threads.OWN_CORE else f"hide-hyperthreads.{OURS}{theirs}"
    assert (parsed.preferences.threads, dict(parsed.origins)["threads"]) == (threads, key)


@pytest.mark.parametrize(
    ("prefer", "require", "required"),
    [("/pod", "/pod", True), ("/container.c0", "/pod", False), ("/pod", "/container.c0", True)],
)
def test_between_prefer_and_require_isolated_the_narrower_wins_then_require(
    prefer: str, require: str, required: bool
) -> None:
    annotations = {f"prefer-isolated-cpus.{OURS}{prefer}": "false", f"require-isolated-cpus.{OURS}{require}": "true"}
    preferences = parse_annotations(annotations, "c0").preferences
    assert (preferences.require_isolated, preferences.prefer_isolated) == (required, required)


def test_the_seeds_short_and_full_form_of_affinity_mean_the_same() -> None:
    short = parse_annotations({f"{SEED}/affinity": "container3: [ container1 ]"}, "container3")
    full = parse_annotations({f"{SEED}/affinity": SEED_AFFINITY}, "container3")
    assert short.affinities == full.affinities == (Affinity(Expression(NAME, "In", ("container1",)), 1),)


def test_affinity_and_anti_affinity_add_up() -> None:
    annotations = {f"{SEED}/affinity": "c0: [a]", f"{SEED}/anti-affinity": "c0: [b]\nc1: [a, b]"}
    assert [a.weight for a in parse_annotations(annotations, "c0").affinities] == [1, -1]
    assert [a.match.values for a in parse_annotations(annotations, "c1").affinities] == [("a", "b")]


def test_hints_count_unless_told_otherwise() -> None:
    assert parse_annotations({}, "c0").locality_filter == LocalityFilter()
    off = parse_annotations({f"{OURS}/topologyhints": "{c0: false}"}, "c0")
    assert off.locality_filter.sources == frozenset()


def test_the_words_on_hints_make_one_filter_with_one_origin() -> None:
    annotations = {
        f"{OURS}/topologyhints": "devices",
        f"allow.topologyhints.{NRI}": "[/dev/dri]",
        f"deny.topologyhints.{NRI}/pod": "type: glob\npaths: [/dev/*]",
    }
    parsed = parse_annotations(annotations, "c0")
    expected = LocalityFilter(frozenset({"devices"}), (PathPattern("/dev/dri"),), (PathPattern("/dev/*", True),))
    assert parsed.locality_filter == expected
    assert parsed.origins == (("localities", " and ".join(annotations)),)


def test_every_wish_that_is_set_has_an_origin() -> None:
    annotations = {f"{OURS}/{row.key}": row.examples[0] for row in TABLE} | {f"{OURS}/memory-type": "mixed"}
    parsed = parse_annotations(annotations, "c0")
    default = Preferences()
    known = {field.partition(".")[0]: origin for field, origin in parsed.origins}
    for field in fields(Preferences):
        if getattr(parsed.preferences, field.name) != getattr(default, field.name):
            assert known[field.name].startswith(OURS), field.name


def test_a_preference_that_follows_from_a_strict_wish_names_that() -> None:
    parsed = parse_annotations({f"{OURS}/require-isolated-cpus": "true"}, "c0")
    assert dict(parsed.origins)["prefer_isolated"] == f"{OURS}/require-isolated-cpus"


@given(st.dictionaries(st.sampled_from([f"{OURS}/{row.key}" for row in TABLE]), st.text(max_size=40)))
def test_no_annotation_makes_the_parser_raise(annotations: dict[str, str]) -> None:
    parsed = parse_annotations(annotations, "c0")
    assert {p.key for p in parsed.problems} <= set(annotations)


def total(namespace: str = "shop", rules: AnnotationRules | None = None, **values: str) -> dict[str, int]:
    texts = {key.replace("__", "/container.").replace("_", "-"): value for key, value in values.items()}
    chosen = {key.replace("request", f"request.{OURS}", 1): value for key, value in texts.items()}
    read = pod_devices(parse_pod(chosen, DOMAINS), namespace, rules or AnnotationRules())
    return {amount.kind: amount.count for amount in summed(read)}


def test_the_devices_of_a_pod_are_those_of_all_containers_that_it_names() -> None:
    assert total(device_request="{c0: gpu=2, c1: {gpu: 1, nic: 1}}") == {"gpu": 3, "nic": 1}
    assert total(device_request__c0="gpu=1", device_request__c1="gpu=2") == {"gpu": 3}


def test_a_value_for_the_whole_pod_counts_once_beside_those_of_named_containers() -> None:
    assert total(device_request="gpu=2") == {"gpu": 2}
    assert total(device_request="gpu=2", device_request__c0="gpu=1", device_request__c1="none") == {"gpu": 3}


def test_what_is_not_understood_or_not_admitted_counts_for_nothing() -> None:
    assert total(device_request="cpu=2") == total() == {}
    assert total(device_request="{c0: gpu=0, c1: gpu=1}") == {"gpu": 1}
    rules = AnnotationRules(restricted=(Restriction(("device-request",), ("ml-*",)),))
    assert [total(space, rules, device_request="gpu=1") for space in ("shop", "ml-1")] == [{}, {"gpu": 1}]


def test_what_the_containers_of_a_pod_ask_of_the_inventory_stays_apart() -> None:
    texts = {
        f"device-resources.{OURS}/pod": "nvidia.com/gpu=1",
        f"device-resources.{OURS}/container.c1": "koordinator.sh/rdma=1",
        f"device-resources.{OURS}/container.c2": "none",
        "scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes": ["gpu", "rdma"]}',
    }
    found = pod_devices(parse_pod(texts, DOMAINS), "shop", AnnotationRules())
    assert [ask.requests for ask in found] == [(("nvidia.com/gpu", 1),), (("koordinator.sh/rdma", 1),)]
    assert all(ask.annotations for ask in found)


def test_only_so_many_named_containers_are_added_up() -> None:
    many = "{" + ", ".join(f'"c{i:03}": "gpu=1"' for i in range(200)) + "}"
    assert total(device_request=many) == {"gpu": _MAX_NAMED}


def test_wishes_that_are_to_stay_are_not_taken_from_a_request() -> None:
    rules = AnnotationRules(restricted=(Restriction(("device-request", "cpu.preserve")),))
    texts = {f"{OURS}/device-request": "gpu=1", f"{OURS}/cpu.preserve": "true"}
    parsed = parse_annotations(texts, "c0")
    asked = replace(request("c0", 1000), preferences=parsed.preferences, origins=parsed.origins)
    bare, why = without_refused(asked, rules)
    assert (bare.preferences, "device-request" in why, "cpu.preserve" in why) == (Preferences(), True, True)
    kept, why = without_refused(asked, rules, stay=("devices.counts",))
    assert kept.preferences == Preferences(devices=DeviceAsk((DeviceAmount("gpu", 1),)))
    assert ("device-request" in why, "cpu.preserve" in why) == (False, True)
