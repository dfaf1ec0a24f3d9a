import pytest

from cri_proxy.cri.device_names.names import DeviceName
from cri_proxy.cri.device_names.nvidia_gpus import (
    DEVICE_LIST,
    Gpu,
    NvidiaGpus,
    Toolkit,
    believed,
    in_order,
    is_gpu_node,
    is_part_node,
    not_replaced,
    read_information,
    read_part_minors,
    read_toolkit,
)

A, B, C, D = "0000:07:00.0", "0000:0a:00.0", "0000:8a:00.0", "0001:00:00.0"
NODE = NvidiaGpus(
    (Gpu(A, 3, "gpu-11aa"), Gpu(B, 0, "gpu-11bb", is_excluded=True), Gpu(C, 1, "gpu-22aa"), Gpu(D, 2, "")),
    frozenset({1, 2}),
    ((12, 0), (433, 3)),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", (A,)),
        ("1", (C,)),  # one that is excluded is not counted
        ("2:0", (D,)),
        ("3", ()),
        ("GPU-11BB", (B,)),
        ("GPU-22", (C,)),
        ("GPU-11", ()),  # two begin so
        ("GPU-", ()),
        ("11aa", ()),
        ("", ()),
        ("GPU-22aa::1", (C,)),  # a share of it
        ("00000000:8A:00.0", (C,)),
        ("0000:ff:00.0", ()),
        ("MIG-GPU-11aa/1/0", (A,)),
        ("MIG-8f6b", (C, D)),  # one of those that have parts
        ("void", ()),
        ("\u0663", ()),
    ],
)
def test_a_gpu_is_called_as_the_container_toolkit_calls_it(text: str, expected: tuple[str, ...]) -> None:
    assert NODE.called(text) == expected


@pytest.mark.parametrize("text", ["", "g", "GPU-"])
def test_what_begins_every_uuid_calls_no_gpu(text: str) -> None:
    assert NvidiaGpus((Gpu(A, 0, "gpu-11aa"),)).called_by_uuid(text) == ()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/dev/nvidia3", (A,)),
        ("/dev/nvidia0", (B,)),
        ("/run/nvidia/driver/dev/nvidia1", (C,)),
        ("/dev/nvidia-caps/nvidia-cap433", (A,)),
        ("/dev/nvidia-caps/nvidia-cap12", (B,)),
        ("/dev/nvidia-caps/nvidia-cap1", ()),
        ("/dev/nvidia9", ()),
        ("/dev/nvidiactl", ()),
    ],
)
def test_a_device_node_is_told_by_its_minor(path: str, expected: tuple[str, ...]) -> None:
    assert NODE.behind_node(path) == expected


def test_a_gpu_whose_minor_is_not_known_has_no_node() -> None:
    assert NvidiaGpus((Gpu(A),)).behind_node("/dev/nvidiactl") == ()


def test_only_nodes_of_parts_are_such() -> None:
    assert is_part_node("/dev/nvidia-caps/nvidia-cap12") and not is_part_node("/dev/nvidia0")


def test_nodes_that_are_of_all_gpus_are_of_none() -> None:
    assert not any(map(is_gpu_node, ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps-imex-channels/channel0")))


INFORMATION = """Model: \t\t NVIDIA A100-SXM4-40GB
IRQ:   \t\t 308
GPU UUID: \t GPU-5D2E8E4B-6a8e-0b49-5e3f-1f4b9a3c7d10
Video BIOS: \t 92.00.36.00.01
Bus Type: \t PCIe
Bus Location: \t 0000:07:00.0
Device Minor: \t 3
GPU Excluded:\t Yes
"""


def test_the_drivers_file_tells_address_minor_and_uuid() -> None:
    uuid = "gpu-5d2e8e4b-6a8e-0b49-5e3f-1f4b9a3c7d10"
    assert read_information(INFORMATION, "x") == Gpu(A, 3, uuid, is_excluded=True)


def test_a_uuid_that_the_driver_does_not_know_yet_is_none() -> None:
    found = read_information("GPU UUID: \t GPU-????????-????\nBus Location: 0000:07:00.0\nDevice Minor: x", "")
    assert found == read_information("GPU UUID: \t N/A\nBus Location: 0000:07:00.0", "") == Gpu(A)


def test_a_file_without_a_bus_location_is_of_its_directory() -> None:
    assert read_information("Device Minor: 0", A) == Gpu(A, 0)
    assert read_information("Device Minor: 0", "x") is None


def test_gpus_are_counted_by_their_addresses() -> None:
    assert [gpu.address for gpu in in_order(map(Gpu, (D, "10000:01:00.0", C, A)))] == [A, C, D, "10000:01:00.0"]


def test_lines_of_no_part_of_a_gpu_are_left_out() -> None:
    assert read_part_minors(["config 1", "gpu0/gi1/access 12", "gpu0/gi1/ci0/access x", "gpu/gi1/access 1", ""]) == (
        (12, 0),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Toolkit()),
        ("[", Toolkit()),
        ("accept-nvidia-visible-devices-envvar-when-unprivileged = false", Toolkit(takes_variable=False)),
        ("accept-nvidia-visible-devices-as-volume-mounts = true", Toolkit(takes_mounts=True)),
    ],
)
def test_the_toolkit_says_what_it_takes(text: str, expected: Toolkit) -> None:
    assert read_toolkit(text) == expected


VARIABLE, MOUNT, NIC = (
    DeviceName("gpu", "0", "NVIDIA_VISIBLE_DEVICES"),
    DeviceName("gpu", "1", DEVICE_LIST),
    DeviceName("pci", A),
)


@pytest.mark.parametrize(
    ("toolkit", "is_privileged", "expected"),
    [
        (Toolkit(), False, (VARIABLE, NIC)),
        (Toolkit(takes_variable=False), False, (NIC,)),
        (Toolkit(takes_variable=False), True, (VARIABLE, NIC)),
        (Toolkit(takes_mounts=True), False, (MOUNT, NIC)),
    ],
)
def test_gpus_that_the_toolkit_would_not_give_do_not_count(
    toolkit: Toolkit, is_privileged: bool, expected: tuple[DeviceName, ...]
) -> None:
    assert believed((VARIABLE, MOUNT, NIC), toolkit, is_privileged=is_privileged) == expected


def test_a_variable_of_a_cdi_specification_counts_as_one_of_the_container() -> None:
    """The toolkit reads what the runtime was given in the end."""
    added = DeviceName("gpu", "0", "NVIDIA_VISIBLE_DEVICES of CDI device a.com/b=0")
    assert believed((added,), Toolkit(takes_variable=False), is_privileged=False) == ()


def test_without_mounts_the_variable_counts_where_both_are_taken() -> None:
    assert believed((VARIABLE, NIC), Toolkit(takes_mounts=True), is_privileged=False) == (VARIABLE, NIC)


def test_a_cdi_specification_that_sets_the_variable_replaces_the_containers_own() -> None:
    void = DeviceName("gpu", "void", "NVIDIA_VISIBLE_DEVICES of CDI device nvidia.com/gpu=0")
    assert (not_replaced((VARIABLE, NIC), (void,)), not_replaced((VARIABLE, NIC), ())) == ((NIC,), (VARIABLE, NIC))
