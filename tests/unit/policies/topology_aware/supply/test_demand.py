from dataclasses import replace
from typing import Any

import pytest

from policies.base import CpuKind, DeviceLocality, QosClass
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.supply.demand import Demand, Isolation, demand_of, off_reserved
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, GUARANTEED, options, request

OPTIONS = options(small_machine())
SHARED = replace(OPTIONS, prefer_shared=True)
NOT_ISOLATED = replace(OPTIONS, prefer_isolated=False)


def demand(mcpu: int, qos: QosClass = GUARANTEED, given: TopologyAwareOptions = OPTIONS, **keys: object) -> Demand:
    return demand_of(request("p/c", mcpu, qos, **keys), given)


@pytest.mark.parametrize(
    ("mcpu", "whole", "shared"),
    [(500, 0, 500), (1000, 1, 0), (1500, 1, 500), (2000, 2, 0), (2500, 2, 500), (3000, 3, 0)],
)
def test_guaranteed_owns_the_integer_part_and_shares_the_fraction(mcpu: int, whole: int, shared: int) -> None:
    found = demand(mcpu)
    assert (found.whole, found.shared_mcpu) == (whole, shared)


@pytest.mark.parametrize("qos", [BURSTABLE, BEST_EFFORT])
def test_other_classes_share_everything(qos: QosClass) -> None:
    assert demand(2500, qos).whole == 0


def test_best_effort_asks_for_nothing_whatever_its_shares_say() -> None:
    assert demand(500, BEST_EFFORT).is_zero


def test_prefer_shared_true_shares_everything() -> None:
    assert demand(2000, prefer_shared=True) == Demand(CpuKind.SHARED, shared_mcpu=2000)


def test_prefer_shared_false_makes_a_burstable_container_own_its_integer_part() -> None:
    found = demand(2500, BURSTABLE, prefer_shared=False)
    assert (found.whole, found.shared_mcpu) == (2, 500)


def test_only_who_owns_no_cpu_wants_a_pool_wide_enough_to_burst() -> None:
    assert demand(2500, BURSTABLE).burst_level is OPTIONS.unlimited_burst
    assert demand(2500, BURSTABLE, prefer_shared=False).burst_level is None
    assert demand(2500, BURSTABLE, cpu_limit_mcpu=8000).burst_mcpu == 8000
    assert demand(2500, BURSTABLE, cpu_limit_mcpu=8000, prefer_shared=False).burst_mcpu == 0
    assert demand(2000, BURSTABLE, cpu_limit_mcpu=8000, require_isolated=True).burst_mcpu == 0


def test_a_strict_wish_to_be_near_devices_means_nothing_without_devices() -> None:
    near = (DeviceLocality("/dev/x", CpuSet.parse("0-3"), NodeSet()),)
    assert not demand(1000, strict_locality=True).strict_locality
    assert demand(1000, strict_locality=True, localities=near).strict_locality


def test_displacement_means_shared() -> None:
    found = demand(2000, levels_up=2)
    assert (found.whole, found.shared_mcpu, found.levels_up) == (0, 2000, 2)


def test_the_option_prefer_shared_is_beaten_by_annotations() -> None:
    assert demand(2000, given=SHARED).whole == 0
    assert demand(2000, given=SHARED, prefer_shared=False).whole == 2
    assert demand(2000, given=SHARED, prefer_isolated=True).whole == 2


@pytest.mark.parametrize(("mcpu", "isolation"), [(1000, "prefer"), (1500, "no"), (2000, "no"), (500, "no")])
def test_exactly_one_cpu_prefers_an_isolated_one(mcpu: int, isolation: str) -> None:
    assert demand(mcpu).isolation.value == isolation


def test_several_isolated_cpus_only_when_annotated() -> None:
    assert demand(3000, prefer_isolated=True).isolation is Isolation.PREFER


def test_isolated_cpus_can_be_opted_out_of() -> None:
    assert demand(1000, prefer_isolated=False).isolation is Isolation.NO
    assert demand(1000, given=NOT_ISOLATED).isolation is Isolation.NO


def test_one_burstable_cpu_is_not_isolated_by_default() -> None:
    assert demand(1000, BURSTABLE, prefer_shared=False).isolation is Isolation.NO


def test_requiring_isolated_cpus_asks_for_whole_ones_in_any_class() -> None:
    found = demand(2000, BURSTABLE, require_isolated=True)
    assert (found.whole, found.isolation) == (2, Isolation.REQUIRE)


@pytest.mark.parametrize(
    ("mcpu", "keys", "conflict"),
    [
        (500, {}, "only whole CPUs can be isolated, and 500m are requested"),
        (1500, {}, "only whole CPUs can be isolated, and 1500m are requested"),
        (0, {}, "no CPU is requested"),
        (2000, {"qos": BEST_EFFORT}, "no CPU is requested"),
        (2000, {"prefer_shared": True}, "prefer-shared-cpus asks for shared CPUs"),
        (2000, {"prefer_shared": True, "levels_up": 2}, "prefer-shared-cpus asks for shared CPUs, 2 up"),
        (2000, {"prefer_reserved": True}, "prefer-reserved-cpus asks for the reserved CPUs"),
        (
            2000,
            {"namespace": "kube-system"},
            "namespace kube-system runs on the reserved CPUs, unless prefer-reserved-cpus is false",
        ),
        (2000, {"namespace": "kube-system", "prefer_reserved": False}, ""),
        (2000, {"prefer_isolated": False, "prefer_shared": False}, ""),
        (2000, {"given": SHARED}, ""),
        (2000, {"preserve_cpu": True}, ""),
    ],
)
def test_what_else_is_asked_can_contradict_the_strict_wish_for_isolated_cpus(
    mcpu: int, keys: dict[str, Any], conflict: str
) -> None:
    assert demand(mcpu, require_isolated=True, **keys).conflict == conflict
    assert demand(mcpu, **keys).conflict == ""


def test_kube_system_is_reserved_unless_annotated() -> None:
    assert demand(100, BURSTABLE, namespace="kube-system") == Demand(CpuKind.RESERVED, reserved_mcpu=100)
    assert demand(100, BURSTABLE, namespace="kube-system", prefer_reserved=False).kind is CpuKind.SHARED


def test_one_that_overflows_shares_whatever_else_it_asks_for() -> None:
    wanted = request("a/c", 2000, namespace="kube-system", require_isolated=True)
    assert off_reserved(wanted, OPTIONS) == Demand(CpuKind.SHARED, shared_mcpu=2000)


def test_an_annotation_reserves_any_container() -> None:
    assert demand(2000, prefer_reserved=True) == Demand(CpuKind.RESERVED, reserved_mcpu=2000)


def test_a_preserved_container_is_left_alone_wherever_it_is() -> None:
    assert demand(2000, preserve_cpu=True, namespace="kube-system") == Demand(CpuKind.PRESERVE)


def test_the_limit_counts_for_burstable_containers_only() -> None:
    assert demand(500, BURSTABLE, cpu_limit_mcpu=4000).burst_mcpu == 4000
    assert demand(500, BURSTABLE).burst_mcpu == 0
    assert demand(2000, cpu_limit_mcpu=2000).burst_mcpu == 0
