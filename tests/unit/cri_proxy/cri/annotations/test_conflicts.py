import pytest

from cri_proxy.cri.annotations.conflicts import CONFLICTS, has_cold_start_kinds
from sysfs.model import MemoryKind
from tests.fakes.annotations import parse_annotations


def problems(pod: dict[str, str], container: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """(key that is ignored, key that counts) of annotations of the pod, and of its container c0."""
    annotations = {f"{key}.d/pod": value for key, value in pod.items()}
    annotations |= {f"{key}.d/container.c0": value for key, value in (container or {}).items()}
    found = parse_annotations(annotations, "c0", ["d"]).problems
    return [(p.key.split(".d/")[0], p.problem.split(" beside ")[-1].split(".d/")[0]) for p in found]


@pytest.mark.parametrize(
    ("ignored", "value", "by", "other"),
    [
        ("prefer-isolated-cpus", "false", "require-isolated-cpus", "true"),
        ("prefer-isolated-cpus", "true", "prefer-shared-cpus", "true"),
        ("prefer-isolated-cpus", "true", "prefer-shared-cpus", "-2"),
        ("prefer-isolated-cpus", "true", "prefer-reserved-cpus", "true"),
        ("prefer-shared-cpus", "false", "prefer-reserved-cpus", "true"),
        ("prefer-shared-cpus", "-1", "prefer-reserved-cpus", "true"),
        ("hide-hyperthreads", "true", "hyperthreads", "own-core"),
        ("hide-hyperthreads", "false", "hyperthreads", "hide"),
        ("hyperthreads", "own-core", "prefer-shared-cpus", "true"),
        ("hyperthreads", "own-core", "prefer-reserved-cpus", "true"),
        ("hyperthreads", "hide", "cpu.preserve", "true"),
        ("require-isolated-cpus", "true", "cpu.preserve", "true"),
        ("prefer-shared-cpus", "true", "cpu.preserve", "true"),
        ("memory-type", "dram", "cpu.preserve", "true"),
        ("memory-type", "dram", "memory.preserve", "true"),
        ("cold-start", "10s", "memory.preserve", "true"),
        ("cold-start", "10s", "memory-type", "pmem"),
        ("strict.topologyhints", "true", "topologyhints", "none"),
        ("pick-resources-by-hints", "true", "topologyhints", "false"),
    ],
)
def test_what_is_ignored_beside_another_wish_is_told(ignored: str, value: str, by: str, other: str) -> None:
    assert problems({ignored: value, by: other}) == [(ignored, by)]


@pytest.mark.parametrize(
    ("one", "value", "two", "other"),
    [
        ("prefer-isolated-cpus", "true", "require-isolated-cpus", "true"),
        ("prefer-isolated-cpus", "false", "prefer-shared-cpus", "true"),
        ("prefer-isolated-cpus", "true", "prefer-shared-cpus", "false"),
        ("prefer-shared-cpus", "true", "prefer-reserved-cpus", "true"),
        ("hide-hyperthreads", "true", "hyperthreads", "hide"),
        ("hyperthreads", "any", "prefer-shared-cpus", "true"),
        ("hide-hyperthreads", "true", "prefer-shared-cpus", "true"),
        ("hyperthreads", "hide", "prefer-reserved-cpus", "true"),
        ("require-isolated-cpus", "true", "prefer-shared-cpus", "true"),
        ("cold-start", "10s", "memory-type", "mixed"),
        ("cold-start", "0", "memory-type", "dram"),
        ("strict.topologyhints", "true", "topologyhints", "devices"),
        ("memory-type", "dram", "memory.preserve", "false"),
    ],
)
def test_wishes_that_go_together_or_refuse_the_container_are_no_problem(
    one: str, value: str, two: str, other: str
) -> None:
    assert problems({one: value, two: other}) == []


def test_a_wish_of_the_pod_that_a_containers_own_overrides_is_no_problem() -> None:
    assert problems({"hyperthreads": "own-core"}, {"prefer-shared-cpus": "true"}) == []
    assert problems({"hide-hyperthreads": "true"}, {"hyperthreads": "any"}) == []


def test_a_containers_own_wish_that_the_pods_leaves_without_effect_is_told() -> None:
    assert problems({"prefer-shared-cpus": "true"}, {"hyperthreads": "own-core"}) == [
        ("hyperthreads", "prefer-shared-cpus")
    ]


def test_a_strict_wish_for_memory_without_its_kind_is_told_and_ignored() -> None:
    parsed = parse_annotations({"d/strict.memory-type": "true"}, "c0", ["d"])
    assert [p.problem for p in parsed.problems] == ["without effect: there is no memory-type to be strict about"]
    assert not parsed.preferences.strict_memory


def test_a_cold_start_without_both_kinds_does_not_happen() -> None:
    annotations = {"d/cold-start": "10s", "d/memory-type": "pmem"}
    assert parse_annotations(annotations, "c0", ["d"]).preferences.cold_start_seconds == 0
    assert has_cold_start_kinds((MemoryKind.DRAM, MemoryKind.HBM, MemoryKind.PMEM))


def test_what_is_ignored_for_two_reasons_is_told_once() -> None:
    assert len(problems({"memory-type": "dram", "memory.preserve": "true", "cpu.preserve": "true"})) == 1


def test_every_reason_is_given_in_words() -> None:
    assert all(row.why and row.ignored and row.by for row in CONFLICTS)
