import pytest

from policies.devices import RESOURCES, full_name, type_named


@pytest.mark.parametrize("name", sorted(set(RESOURCES) - {"koordinator.sh/gpu"}))
def test_a_resource_of_koordinators_may_be_named_without_its_domain(name: str) -> None:
    assert full_name(name.removeprefix("koordinator.sh/")) == name
    assert full_name(name) == name


@pytest.mark.parametrize("name", ["gpu", "gpu-cores", "example.com/gpu-core"])
def test_what_could_be_another_resource_keeps_its_name(name: str) -> None:
    assert full_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "huawei.com/npu-core",
        "huawei.com/npu-dvpp",
        "cambricon.com/mlu.smlu.vmemory",
        "metax-tech.com/sgpu",
        "metax-tech.com/vcore",
        "hygon.com/dcunum",
        "kunlunxin.com/xpu",
        "enflame.com/drs-gcu",
        "nvidia.com/vgpu",
        "gpu.intel.com/i915",
        "amd.com/cpx_nps4",
    ],
)
def test_a_resource_of_gpus_is_known_as_one_by_its_words(name: str) -> None:
    """What is none of the resources here is left out with a warning, and never without a word."""
    assert (type_named(name), name in RESOURCES) == ("gpu", False)


@pytest.mark.parametrize("name", ["devices.kubevirt.io/kvm", "cpu", "hugepages-2Mi", "example.com/any"])
def test_other_resources_are_of_no_type(name: str) -> None:
    assert type_named(name) == ""
