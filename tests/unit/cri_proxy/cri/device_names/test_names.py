import pytest

from cri_proxy.cri.device_names.names import DeviceName, each_once, pci_address, pci_address_in_label


@pytest.mark.parametrize("text", ["", "3b:00.0", "0000:3b:00.8", "0000:3b:00.0 ", "0000-3b-00-0", "x0000:3b:00.0"])
def test_what_is_no_pci_address_is_none(text: str) -> None:
    assert pci_address(text) is None


def test_a_domain_has_the_digits_that_sysfs_gives_it() -> None:
    found = [pci_address(f"{domain}:3B:00.1") for domain in ("0000", "00000000", "0000a000", "10000")]
    assert found == ["0000:3b:00.1", "0000:3b:00.1", "a000:3b:00.1", "10000:3b:00.1"]


@pytest.mark.parametrize("label", ["0000-3b-00-1", "pci-0000-3b-00-1", "gpu-0000-3B-00-1"])
def test_the_name_of_a_device_may_hold_its_pci_address(label: str) -> None:
    assert pci_address_in_label(label) == "0000:3b:00.1"


@pytest.mark.parametrize(
    "label", ["", "gpu-0", "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001", "10000-3b-00-1", "0000-3b-00-1-2"]
)
def test_other_names_hold_none(label: str) -> None:
    assert pci_address_in_label(label) is None


def test_of_two_that_are_spelt_alike_the_first_counts() -> None:
    first, second, other = DeviceName("pci", "a", "X"), DeviceName("pci", "a", "Y"), DeviceName("gpu", "a", "Y")
    assert each_once([first, second, other]) == (first, other)
