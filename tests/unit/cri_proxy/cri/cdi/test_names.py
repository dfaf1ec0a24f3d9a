import pytest

from cri_proxy.cri.cdi.names import cdi_name, is_device, is_kind


def test_the_type_of_a_device_is_its_kind_and_may_have_slashes_of_its_own() -> None:
    assert cdi_name("example.com/gpu/gpu0") == "example.com/gpu=gpu0"


@pytest.mark.parametrize("kind", ["nvidia.com/gpu", "a/b", "Vendor_1.io/gpu.mig-1g"])
def test_a_kind_is_a_vendor_and_a_class(kind: str) -> None:
    assert is_kind(kind)


@pytest.mark.parametrize(
    "kind", ["", "gpu", "/gpu", "a/", "a/b/c", "1.com/gpu", "a.com/0", "a-/b", "a/b-", "a b/c", "ä/b"]
)
def test_what_is_not_one_is_none(kind: str) -> None:
    assert not is_kind(kind)


def test_a_device_begins_and_ends_with_a_letter_or_digit() -> None:
    assert all(map(is_device, ["0", "gpu0", "GPU-8f:1", "a_b.c-d"]))
    assert not any(map(is_device, ["", "-0", "0-", "a b", "a=b", "a/b", "a\n"]))
