from pathlib import Path

import pytest

from cri_proxy.device_costs import device_costs, pci_address
from policies.devices.costs import CostError
from sysfs.errors import SysfsBaseError

NIC = "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"
PORT = "sys/devices/pci0000:10/0000:10:01.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine of two nodes with a CPU each, and a NIC behind a port."""
    contents = {
        "sys/devices/system/cpu/online": "0-1",
        "sys/devices/system/cpu/present": "0-1",
        "sys/devices/system/node/online": "0-1",
    }
    for n in (0, 1):
        topology = f"sys/devices/system/cpu/cpu{n}/topology"
        contents |= {
            f"{topology}/{name}": f"{n}" for name in ("core_id", "physical_package_id", "thread_siblings_list")
        }
        node = f"sys/devices/system/node/node{n}"
        contents |= {f"{node}/cpulist": f"{n}", f"{node}/distance": "10 20" if n == 0 else "20 10"}
        contents |= {f"{node}/meminfo": f"Node {n} MemTotal:  1048576 kB\n"}
    for path, code in ((PORT, "0x060400"), (NIC, "0x020000")):
        contents |= {f"{path}/{name}": "0x8086" for name in ("vendor", "device")}
        contents |= {f"{path}/class": code, f"{path}/numa_node": "1", f"{path}/local_cpulist": "1"}
    contents[f"{NIC}/net/eth0/address"] = "00:00:00:00:00:00"
    for name, content in contents.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
    for directory, target in (("bus/pci/devices/0000:11:00.0", NIC), ("class/net/eth0", f"{NIC}/net/eth0")):
        link = tmp_path / "sys" / directory
        link.parent.mkdir(parents=True)
        link.symlink_to("../" * directory.count("/") + target.removeprefix("sys/"))
    return tmp_path


@pytest.mark.parametrize(
    "device",
    ["0000:11:00.0", "11:00.0", "0000:11:00.0".upper(), "/sys/bus/pci/devices/0000:11:00.0", "/sys/class/net/eth0"],
)
def test_a_device_is_given_by_address_or_by_a_path_of_sysfs(root: Path, device: str) -> None:
    costs = device_costs(device, root)
    assert (costs.cpus, costs.memory_nodes, costs.devices) == ({0: 100, 1: 15}, {0: 100, 1: 15}, {})


def test_a_path_may_have_the_root_in_it(root: Path) -> None:
    assert pci_address(str(root / "sys/class/net/eth0"), root) == "0000:11:00.0"


@pytest.mark.parametrize("device", ["", "eth0", "/sys/class/net/eth1", "/sys/devices/system", "0000:11:00.9"])
def test_what_names_no_pci_device_is_refused(root: Path, device: str) -> None:
    with pytest.raises(CostError):
        device_costs(device, root)


def test_a_directory_without_a_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SysfsBaseError):
        device_costs("0000:11:00.0", tmp_path)
