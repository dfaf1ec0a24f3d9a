import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri_client.pods import ContainerSpec
from cri_proxy.tryout.workloads import LABEL, PREFER_SHARED, Role, cast, left_out, reserved_cpus
from policies.base import QosClass

CPUS = st.integers(1, 64)


def exclusive(role: Role) -> int:
    """Whole CPUs that the role's containers get for themselves."""
    if role.pod.qos is not QosClass.GUARANTEED or dict(role.pod.annotations).get(PREFER_SHARED):
        return 0
    return sum(c.cpu_limit_mcpu // 1000 for c in role.pod.containers)


def shared_mcpu(role: Role) -> int:
    """What the role's containers ask for in common."""
    if role.pod.namespace == "kube-system":
        return 0
    return sum(c.effective_cpu_request_mcpu for c in role.pod.containers) - 1000 * exclusive(role)


@given(CPUS)
def test_what_is_asked_for_fits_beside_the_reserved_cpus(cpu_count: int) -> None:
    roles = cast(cpu_count, run="r")
    free_mcpu = 1000 * (cpu_count - reserved_cpus(cpu_count) - sum(map(exclusive, roles)))
    assert sum(map(shared_mcpu, roles)) <= free_mcpu


@given(CPUS)
def test_every_pod_carries_the_label_by_which_it_is_removed(cpu_count: int) -> None:
    assert {role.pod.labels for role in cast(cpu_count, run="r")} == {((LABEL, "r"),)}


@pytest.mark.parametrize("cpu_count", [3, 4, 16])
def test_a_machine_with_room_shows_every_class_and_wish(cpu_count: int) -> None:
    roles = cast(cpu_count, run="r")
    assert {role.pod.qos for role in roles} == set(QosClass)
    assert {"database", "report", "pair", "node-agent"} <= {role.pod.name for role in roles}
    assert left_out(cpu_count) == ""


def test_two_cpus_still_show_one_that_is_exclusive() -> None:
    assert sum(map(exclusive, cast(2, run="r"))) == 1
    assert "web" in left_out(2)


def test_one_cpu_is_nobodys_own() -> None:
    assert sum(map(exclusive, cast(1, run="r"))) == 0
    assert "database" in left_out(1)


def test_only_a_machine_with_cores_to_spare_shows_whole_cores() -> None:
    assert [any(role.pod.name == "trading" for role in cast(n, run="r")) for n in (8, 9)] == [False, True]


def test_the_pair_wants_to_sit_together() -> None:
    pair = next(role.pod for role in cast(4, run="r") if role.pod.name == "pair")
    assert pair.annotations == (("cri-proxy.io/affinity", "back: [front]"),)
    assert isinstance(pair.containers[0], ContainerSpec)
