from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from cri_proxy.inventory.numbers import NUMBERS
from cri_proxy.kubelet.device_plugin.sources import SCAN_SECONDS, PluginSources, rescanned
from policies.devices import DeviceInventory, InventoryDevice, PciePath, VfGroup, VirtualFunction
from sysfs.descriptions.machine import describe
from tests.fakes.secret_files import MARK, SECRETS
from tests.fakes.sysfs_tree import write_tree

ROOT = Path(__file__).parents[5]
INVENTORY = "gpu: [{minor: 0}]\n"


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_all_three_files_are_read(tmp_path: Path) -> None:
    inventory = write(tmp_path, "devices.yaml", INVENTORY)
    costs = write(tmp_path, "costs.yaml", "x.io/gpu/gpu0: {5: [x.io/gpu/gpu1]}\nx.io/gpu/gpu1: {}\n")
    known = PluginSources(inventory, ROOT / "configs" / "links" / "kep-690.txt", costs).read()
    assert known.problems == ()
    assert known.inventory is not None
    assert [device.key for device in known.inventory.devices] == [("gpu", 0)]
    assert known.links is not None
    assert len(known.links.indices) == 8
    assert {group.kind for group in known.costs.table.groups} == {"x.io/gpu"}


@pytest.mark.parametrize(
    ("links", "costs", "line", "problem"),
    [
        ("GPU0 X WAT", None, 1, "GPU0: no such column"),
        ("nvlink: [[0]]\n---\nnvlink: [[0]]", None, 3, "another document begins here: a file of links holds one"),
        (None, "a/b: {x: [a/c]}\na/c: {1: [a/b]}", 1, "'x': expected a cost"),
        (None, "", 0, "is empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_problem_with_its_line(
    tmp_path: Path, links: str | None, costs: str | None, line: int, problem: str
) -> None:
    inventory = write(tmp_path, "inventory", INVENTORY)
    paths = [
        None if text is None else write(tmp_path, name, text) for name, text in (("links", links), ("costs", costs))
    ]
    known = PluginSources(inventory, *paths).read()
    assert known.inventory is not None
    (found,) = known.problems
    assert (found.source, found.line) == (str(next(filter(None, paths))), line)
    assert found.problem.startswith(problem)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("name", ["shadow", "kubeconfig", "list below a path", "word with dots"])
def test_of_a_file_of_something_else_nothing_is_repeated(tmp_path: Path, place: int, name: str) -> None:
    paths = [write(tmp_path, "inventory", INVENTORY), None, None]
    paths[place] = write(tmp_path, "secret", SECRETS[name])
    (problem,) = PluginSources(*paths).read().problems
    assert problem.source == f"{tmp_path}/secret"
    assert MARK not in problem.problem


@pytest.mark.parametrize("place", range(3))
def test_a_link_out_of_the_directory_of_a_file_is_not_followed(tmp_path: Path, place: int) -> None:
    (tmp_path / "d").mkdir()
    paths = [write(tmp_path / "d", "inventory", INVENTORY), None, None]
    write(tmp_path, "secret", INVENTORY)
    link = paths[place] = tmp_path / "d" / "link"
    link.symlink_to("../secret")
    (problem,) = PluginSources(*paths).read().problems
    assert (problem.source, problem.line) == (str(link), 0)
    assert problem.problem == "is a link that leads out of its directory: put the file itself there"


def test_a_file_that_is_not_there_or_no_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\n\xff")
    problems = PluginSources(tmp_path / "gone", tmp_path / "binary").read().problems
    assert [(problem.line, problem.problem) for problem in problems] == [
        (0, "cannot be read: No such file or directory"),
        (2, "not UTF-8: save it as UTF-8 text"),
    ]


def test_what_cannot_be_used_now_is_as_it_was_before(tmp_path: Path) -> None:
    inventory, links = write(tmp_path, "i", INVENTORY), write(tmp_path, "l", "nvlink: [[0]]")
    sources = PluginSources(inventory, links)
    before = sources.read()
    inventory.write_text("- no inventory")
    write(tmp_path, "l", "nvlink: [[0, 1], [1, 0]]")
    after = sources.read()
    assert after.inventory == before.inventory
    assert [problem.source for problem in after.problems] == [str(inventory)]
    assert after.links is not None
    assert len(after.links.indices) == 2


def test_a_file_that_others_may_write_to_is_not_read(tmp_path: Path) -> None:
    """As in the daemon, to which the same file may be given."""
    inventory = write(tmp_path, "devices.yaml", INVENTORY)
    inventory.chmod(0o666)
    (problem,) = PluginSources(inventory).read().problems
    assert problem.problem == f"has mode 0666, others may write to it: chmod go-w {inventory}"


def test_the_directories_of_all_files_are_watched(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    sources = PluginSources(tmp_path / "i", tmp_path / "a" / "l")
    lookups = sources.lookups()
    assert {"i", "a"} <= lookups[tmp_path]
    assert lookups[tmp_path / "a"] == {"l"}
    assert PluginSources(None).lookups() == {}


def scanned(*devices: int) -> DeviceInventory:
    """GPUs at these buses, numbered by address."""
    return DeviceInventory(
        tuple(InventoryDevice("gpu", minor, path=PciePath(bus=f"0000:{bus}:00.0")) for minor, bus in enumerate(devices))
    )


def test_a_device_that_is_gone_from_its_address_is_unhealthy_and_keeps_the_numbers_of_others() -> None:
    first = scanned(10, 20, 30)
    found = rescanned(first, scanned(10, 30), first)
    assert [(device.minor, device.is_healthy) for device in found.devices] == [(0, True), (1, False), (2, True)]
    assert rescanned(found, scanned(10, 20, 30), found) == first


def test_a_device_that_has_come_takes_no_number_of_another() -> None:
    first = scanned(10, 30)
    found = rescanned(first, scanned(10, 20, 30), first)
    assert [(device.minor, device.path.bus) for device in found.devices] == [
        (0, "0000:10:00.0"),
        (1, "0000:30:00.0"),
        (2, "0000:20:00.0"),
    ]


def test_virtual_functions_are_those_of_the_last_scan() -> None:
    made = VfGroup((VirtualFunction(0, "0000:10:00.1"),))
    (device,) = scanned(10).devices
    some = DeviceInventory((replace(device, vf_groups=(made,)),))
    assert rescanned(some, scanned(10), some) == scanned(10)
    assert rescanned(scanned(10), some, scanned(10)) == some


def test_the_machine_is_scanned_now_and_then(tmp_path: Path) -> None:
    pci = [{"address": "0000:10:00.0", "class": 0x030200, "node": 0}]
    write_tree(tmp_path, describe({"packages": 1, "cores": 2, "memory": "1Gi", "pci": pci}))
    times = iter([0.0, SCAN_SECONDS - 1, SCAN_SECONDS])
    sources = PluginSources(None, sysfs_root=tmp_path, now_seconds=lambda: next(times))
    first = sources.read().inventory
    assert first is not None
    assert [device.path.bus for device in first.devices] == ["0000:10:00.0"]
    link = tmp_path / "sys" / "bus" / "pci" / "devices" / "0000:10:00.0"
    rmtree(link.resolve())
    link.unlink()
    assert sources.read().inventory == first
    gone = sources.read().inventory
    assert gone is not None
    assert [device.is_healthy for device in gone.devices] == [False]


def with_gpus(root: Path, *buses: int) -> Path:
    """A machine with GPUs at these buses."""
    pci = [{"address": f"0000:{bus}:00.0", "class": 0x030200, "node": 0} for bus in buses]
    return write_tree(root, describe({"packages": 1, "cores": 2, "memory": "1Gi", "pci": pci}))


def minors(sources: PluginSources) -> dict[str, int]:
    knowledge = sources.read()
    assert knowledge.problems == ()
    assert knowledge.inventory is not None
    return {device.path.bus: device.minor for device in knowledge.inventory.devices}


def test_after_a_restart_without_a_device_the_others_have_their_numbers(tmp_path: Path) -> None:
    """To the kubelet they are these numbers, and it remembers which of them containers have."""
    state_dir = tmp_path / "state"
    minors(PluginSources(None, sysfs_root=with_gpus(tmp_path / "all", 10, 20, 30), state_dir=state_dir))
    left = with_gpus(tmp_path / "left", 20, 30)
    assert minors(PluginSources(None, sysfs_root=left, state_dir=state_dir)) == {"0000:20:00.0": 1, "0000:30:00.0": 2}
    assert minors(PluginSources(None, sysfs_root=left)) == {"0000:20:00.0": 0, "0000:30:00.0": 1}


def test_numbers_that_cannot_be_kept_are_a_problem_with_their_file(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(0o700)
    (tmp_path / "state" / NUMBERS.name).write_text("{")
    (tmp_path / "state" / NUMBERS.name).chmod(0o600)
    sources = PluginSources(None, sysfs_root=with_gpus(tmp_path / "all", 10), state_dir=tmp_path / "state")
    (problem,) = sources.read().problems
    assert (problem.source, "remove it" in problem.problem) == (str(tmp_path / "state" / NUMBERS.name), True)


def test_a_machine_that_cannot_be_scanned_is_a_problem(tmp_path: Path) -> None:
    (problem,) = PluginSources(None, sysfs_root=tmp_path).read().problems
    assert problem.source == "scan"
