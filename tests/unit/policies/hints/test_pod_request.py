"""What a pod asks for: its app containers together, or an init container on what runs by then."""

import pytest

from policies.hints.pod_request import ContainerKind, ContainerRequest, pod_request


def ask(cpu: int, kind: ContainerKind = ContainerKind.APP) -> ContainerRequest:
    return ContainerRequest({"cpu": cpu}, kind)


INIT, SIDECAR = ContainerKind.INIT, ContainerKind.RESTARTABLE_INIT


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([ask(2), ask(3)], 5, id="app containers add up"),
        pytest.param([ask(4, INIT), ask(1, INIT), ask(2)], 4, id="init containers run one after the other"),
        pytest.param([ask(1, SIDECAR), ask(2)], 3, id="a restartable init container stays"),
        pytest.param([ask(1, SIDECAR), ask(4, INIT), ask(2)], 5, id="an init container runs on top of earlier ones"),
        pytest.param([ask(4, INIT), ask(1, SIDECAR), ask(2)], 4, id="not on top of later ones"),
    ],
)
def test_the_larger_of_start_and_run_counts(containers: list[ContainerRequest], expected: int) -> None:
    assert pod_request(containers) == {"cpu": expected}


def test_memory_that_only_init_containers_ask_for_is_left_out() -> None:
    init = ContainerRequest({"example.com/gpu": 1, "hugepages-2Mi": 4, "memory": 9}, INIT)
    assert pod_request([init, ContainerRequest({"memory": 3})]) == {"example.com/gpu": 1, "memory": 9}
