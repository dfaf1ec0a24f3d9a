import pytest

from policies.topology_aware.options import parse_device_cpus, parse_pool_weight
from tests.fakes.machines import small_machine
from tests.unit.policies.build import options


@pytest.mark.parametrize(
    ("namespace", "is_reserved"),
    [("kube-system", True), ("infra-dns", True), ("default", False), ("kube-system-2", False), ("INFRA-x", False)],
)
def test_kube_system_and_the_globs_are_reserved_namespaces(namespace: str, is_reserved: bool) -> None:
    chosen = options(small_machine(), reserved_namespaces=("infra-*",))
    assert chosen.is_reserved_namespace(namespace) is is_reserved


@pytest.mark.parametrize(
    ("text", "problem"),
    [("gpu=1", "expected cpu or memory, got 'gpu'"), ("cpu=101", "a weight from 0 to 100"), ("memory=-1", "got '-1'")],
)
def test_a_weight_of_no_resource_or_out_of_bounds_is_an_error_that_names_it(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_pool_weight(text)


def test_weights_are_by_resource_and_what_is_not_named_does_not_count() -> None:
    assert options(small_machine()).weight_by_resource == {"cpu": 3, "memory": 1}
    chosen = options(small_machine(), pool_weights=(parse_pool_weight("Memory= 2"),))
    assert chosen.weight_by_resource == {"memory": 2}


@pytest.mark.parametrize("text", ["keep", "keep=0", "keep=-1", "keep=10000", "keep=8m", "avoid=1", "near", ""])
def test_a_rule_about_cpus_beside_devices_that_is_none_names_the_rules(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected avoid, ignore or \{keep: N\} with N from 1 to 9999"):
        parse_device_cpus(text)


def test_only_a_number_keeps_cpus_beside_devices() -> None:
    kept = [options(small_machine(), device_cpus=parse_device_cpus(t)).kept_per_device for t in ("Avoid", "keep=9999")]
    assert kept == [0, 9999]
