from typing import Any

import pytest

from cri_proxy.extender.demand import GpuDemand, QuestionError, demand_of
from tests.fakes.scheduler import container, pod


def spec_of(*gpus: int, init: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = pod(*gpus, init=init or ())["spec"]
    return spec


def sidecar(name: str, gpus: int) -> dict[str, Any]:
    return container(name, gpus, restartPolicy="Always")


@pytest.mark.parametrize(
    ("init", "gpus", "sizes", "most"),
    [
        ([], (0,), (), 0),
        ([], (1,), (1,), 1),
        ([], (2, 0, 4), (2, 4), 6),
        ([container("init", 8)], (2,), (2,), 8),
        ([container("init", 1)], (2,), (2,), 2),
        ([container("init", 8)], (0,), (), 8),
        ([sidecar("side", 2)], (4,), (2, 4), 6),
        ([sidecar("side", 2), container("init", 7)], (4,), (2, 4), 9),
        ([container("init", 7), sidecar("side", 2)], (4,), (2, 4), 7),
        ([sidecar("one", 2), sidecar("two", 3)], (0,), (2, 3), 5),
    ],
)
def test_init_containers_leave_their_gpus_and_those_that_go_on_keep_them(
    init: list[dict[str, Any]], gpus: tuple[int, ...], sizes: tuple[int, ...], most: int
) -> None:
    found = demand_of(spec_of(*gpus, init=init))
    assert (found.sizes, found.most) == (sizes, most)


def test_a_limit_alone_is_the_request_too() -> None:
    for kind in ("limits", "requests"):
        spec = {"containers": [{"name": "c", "resources": {kind: {"nvidia.com/gpu": 2}}}]}
        assert demand_of(spec) == GpuDemand((("c", 2),), 2)


def test_only_pairs_within_a_container_matter() -> None:
    assert not demand_of(spec_of(1, 1)).has_pairs
    assert demand_of(spec_of(1, 2)).has_pairs


def test_what_is_not_there_is_none() -> None:
    assert demand_of({}) == GpuDemand()
    assert demand_of({"containers": None, "initContainers": [{"resources": None}]}) == GpuDemand()
    assert demand_of({"containers": [{"resources": {"limits": {"amd.com/gpu": "2"}}}]}) == GpuDemand()


def test_it_is_told_by_the_names_of_the_containers() -> None:
    assert str(demand_of(spec_of(2, 0, 4))) == "c0: 2, c2: 4"
    assert str(demand_of(spec_of(0, init=[container("init", 8)]))) == "init containers: 8"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"containers": {}}, "spec.containers: expected an array, got dict"),
        ({"containers": ["c"]}, "spec.containers[0]: expected an object, got str"),
        ({"containers": [{"resources": 1}]}, "spec.containers[0].resources: expected an object, got int"),
        (
            {"initContainers": [{"resources": {"limits": {"nvidia.com/gpu": "-1"}}}]},
            "spec.initContainers[0].resources.limits.nvidia.com/gpu: expected a number of GPUs, got '-1'",
        ),
        ({"containers": [{}] * 1001}, "spec.containers: 1001 containers; at most 1000 are read"),
    ],
)
def test_what_is_no_spec_is_an_error_with_its_place(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(QuestionError) as raised:
        demand_of(spec)
    assert str(raised.value) == problem
