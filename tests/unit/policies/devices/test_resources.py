import pytest

from policies.devices import RESOURCES, full_name


@pytest.mark.parametrize("name", sorted(set(RESOURCES) - {"koordinator.sh/gpu"}))
def test_a_resource_of_koordinators_may_be_named_without_its_domain(name: str) -> None:
    assert full_name(name.removeprefix("koordinator.sh/")) == name
    assert full_name(name) == name


@pytest.mark.parametrize("name", ["gpu", "gpu-cores", "example.com/gpu-core"])
def test_what_could_be_another_resource_keeps_its_name(name: str) -> None:
    assert full_name(name) == name
