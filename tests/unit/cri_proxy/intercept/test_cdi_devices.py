import json
from pathlib import Path

import pytest

from cri_proxy.cri.cdi.variables import ClaimNotRead
from cri_proxy.device_files.cdi import CLAIM_KINDS, MAX_CLAIM_KINDS, MAX_KIND_CHARACTERS, CdiFiles, ask_cdi
from cri_proxy.file_workers import FilesFailed
from cri_proxy.in_force.last_good_writer import StateDirectory
from cri_proxy.intercept.cdi_devices import CDI_FILES, CLAIM_KIND, CdiDevices
from cri_proxy.tasks import Tasks
from tests.fakes.reloads import Heard
from tests.fakes.silent_files import SilentFiles

NAMES = ("example.com/nic=d", "example.com/nic=e")
FORK = "fork.example/cpus"


def write(root: Path, kind: str, device: str, *variables: str) -> str:
    """Declare a device that adds these variables; return its CDI name."""
    (root / "etc/cdi").mkdir(parents=True, exist_ok=True)
    spec = {"kind": kind, "devices": [{"name": device, "containerEdits": {"env": list(variables)}}]}
    (root / "etc/cdi" / f"{kind.replace('/', '_')[:200]}.json").write_text(json.dumps(spec))
    return f"{kind}={device}"


class Node:
    """Processes of one node, one after the other, with one state directory, and files that answer until told not to."""

    def __init__(self, root: Path) -> None:
        self.files, self.journal, self._root = SilentFiles(), Heard(), root
        self.state = StateDirectory(root / "state", Tasks(), self.journal)
        self.devices = CdiDevices(root, self.files)

    async def restart(self) -> None:
        await self.state.tasks.join()
        self.devices = CdiDevices(self._root, self.files)
        await self.devices.remember_in(self.state)

    async def refuses(self, *names: str) -> bool:
        """Whether a container with these devices is refused while the files do not answer."""
        self.files.subjects = (CDI_FILES,)
        with pytest.raises((FilesFailed, ClaimNotRead)) as failed:
            await self.devices.claim_variables(names)
        self.files.subjects = ()
        return failed.type is ClaimNotRead


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_names_that_a_specification_declares_are_told_from_others(tmp_path: Path) -> None:
    write(tmp_path, "example.com/nic", "d")
    assert await CdiDevices(tmp_path, SilentFiles()).declared(NAMES) == ("example.com/nic=d",)
    with pytest.raises(FilesFailed, match="CDI specifications: no answer"):
        await CdiDevices(tmp_path, SilentFiles(CDI_FILES)).declared(NAMES)


async def test_specifications_that_are_none_are_named(tmp_path: Path) -> None:
    write(tmp_path, "example.com/nic", "d")
    devices = CdiDevices(tmp_path, SilentFiles())
    assert await devices.unreadable() == ()
    (tmp_path / "etc/cdi/broken.json").write_text("{")
    assert await devices.unreadable() == ("/etc/cdi/broken.json",)


async def test_devices_are_resolved_by_their_specification(tmp_path: Path) -> None:
    write(tmp_path, "example.com/nic", "d")
    found = await CdiDevices(tmp_path, SilentFiles()).resolved(NAMES)
    assert found.problem.startswith("example.com/nic=d (/etc/cdi/example.com_nic.json) has cdiVersion None")


async def test_the_cpus_chosen_for_a_container_come_from_its_cdi_devices(node: Node, tmp_path: Path) -> None:
    names = (write(tmp_path, CLAIM_KIND, "a", "DRA_CPUSET_a=0-3", "OTHER=1"), NAMES[0])
    assert await node.devices.claim_variables(names) == (("DRA_CPUSET_a", "0-3"),)
    assert not await node.refuses(NAMES[0])
    node.files.subjects = (CDI_FILES,)
    with pytest.raises(ClaimNotRead, match=r"^CPUs were chosen for it by dra.k8s.io/cpu=a, and it is not known which:"):
        await node.devices.claim_variables(names)


async def test_the_next_helper_is_given_what_the_last_one_parsed(node: Node, tmp_path: Path) -> None:
    """Another device's specification is given here, so that it is seen where the answer comes from."""
    write(tmp_path / "other", "example.com/nic", "e")
    write(tmp_path, "example.com/nic", "d")
    ((_, other),), files = CdiFiles(tmp_path / "other").specs(), CdiFiles(tmp_path)
    files.specs()
    files._files.known = {path: (stamp, other) for path, (stamp, _) in files._files.known.items()}
    node.devices._packed = files.packed()
    assert await node.devices.declared(NAMES) == ("example.com/nic=e",)
    write(tmp_path, "example.com/nic", "d")
    assert await node.devices.declared(NAMES) == ("example.com/nic=d",)
    assert node.devices._packed == ask_cdi(tmp_path, b"", CdiFiles.declared, NAMES)[1] != files.packed()


async def test_a_kind_brings_claims_once_a_device_has_whatever_others_there_are(node: Node, tmp_path: Path) -> None:
    names = (write(tmp_path, FORK, "a", "DRA_CPUSET_a=0-3"), write(tmp_path, "example.com/nic", "d", "OTHER=1"))
    assert not await node.refuses(*names)
    await node.devices.claim_variables(names)
    assert await node.refuses(f"{FORK}=b")
    assert not await node.refuses(NAMES[0])


async def test_a_kind_with_claims_is_known_after_a_restart(node: Node, tmp_path: Path) -> None:
    await node.restart()
    await node.devices.claim_variables([write(tmp_path, FORK, "a", "DRA_CPUSET_a=0-3")])
    await node.restart()
    assert await node.refuses(f"{FORK}=b")
    assert await node.refuses(f"{CLAIM_KIND}=b")


@pytest.mark.parametrize("kinds", ["{", "1", "[1]", json.dumps(["a/b"] * (MAX_CLAIM_KINDS + 1))])
async def test_a_list_of_kinds_that_cannot_be_used_is_logged_and_replaced(
    kinds: str, node: Node, tmp_path: Path
) -> None:
    node.state.path.mkdir(mode=0o700)
    (node.state.path / CLAIM_KINDS.name).write_text(f'{{"version": 1, "kinds": {kinds}}}')
    await node.restart()
    assert "remove it" in str(node.journal.fields("claim_kinds_not_kept")["reason"])
    await node.devices.claim_variables([write(tmp_path, FORK, "a", "DRA_CPUSET_a=0-3")])
    await node.restart()
    assert await node.refuses(f"{FORK}=b")


async def test_the_kinds_that_are_remembered_are_bounded(node: Node, tmp_path: Path) -> None:
    long = write(tmp_path, "x" * MAX_KIND_CHARACTERS + "/y", "a", "DRA_CPUSET_a=0-3")
    names = [write(tmp_path, f"k{number}.com/cpu", "a", "DRA_CPUSET_a=0-3") for number in range(MAX_CLAIM_KINDS)]
    for name in (long, *names):
        await node.devices.claim_variables([name])
    assert [await node.refuses(name) for name in names] == [True] * (MAX_CLAIM_KINDS - 1) + [False]
