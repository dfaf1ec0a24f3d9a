"""The installed package in front of a true containerd on a machine of two packages with two NUMA nodes each.

CPUs 4n to 4n+3 belong to node n, two threads to a core; the kernel isolates CPUs 3 and 7, CPU 0 is reserved.
"""

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sysfs.cpuset import CpuSet, NodeSet
from tests.vm.rig.image import ensure_image, guest_python
from tests.vm.rig.machine import QEMU, Job, run_machine
from tests.vm.rig.packages import gather
from tests.vm.rig.topology import Topology

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
ISOLATED = CpuSet.parse("3,7")
RESERVED = CpuSet.parse("0")
REMEDY = "apt-get install --no-install-recommends qemu-system-x86 e2fsprogs"
pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the kernel allowed one container."""

    cpus: CpuSet
    mems: NodeSet

    @property
    def nodes(self) -> NodeSet:
        """The NUMA nodes of its CPUs."""
        return NodeSet.of(cpu // 4 for cpu in self.cpus)


@dataclass(frozen=True, slots=True)
class Report:
    """What came back from the machine, by 'pod/container', seen once all of them ran."""

    seen: dict[str, Seen]

    def others(self, name: str) -> CpuSet:
        """The CPUs of everybody else."""
        return CpuSet.of(cpu for other, seen in self.seen.items() if other != name for cpu in seen.cpus)


def missing() -> str:
    """What keeps a machine from being built here; '' when nothing does."""
    if os.geteuid() != 0:
        return "the emulated machine's disk is built as root"
    programs = [name for name in (QEMU, "mkfs.ext4", "apt-get", "dpkg-deb") if shutil.which(name) is None]
    return f"not installed: {', '.join(programs)} ({REMEDY})" if programs else ""


def parse(texts: dict[str, dict[str, str]]) -> dict[str, Seen]:
    return {name: Seen(CpuSet.parse(t["cpus"]), NodeSet.parse(t["mems"])) for name, t in texts.items()}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One boot, in which everything is played."""
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    work = tmp_path_factory.mktemp("vm")
    image = ensure_image()
    gather(work / "site", guest_python=guest_python(image), repository=REPOSITORY)
    job = Job(
        command=("python3", "/rig/guest_placement.py"),
        files=((work / "site", "/site"), (HERE / "guest_placement.py", "/rig/guest_placement.py")),
        environment=(("PYTHONPATH", "/site"),),
    )
    topology = Topology.from_json((HERE / "topologies" / "2s4n-isol.json").read_text())
    outcome = run_machine(topology, job, image=image, out=work / "out", echo=sys.stdout.write)
    print(outcome.steps_seconds, f"attempt {outcome.attempts}")
    log = work / "out" / "cri-proxy" / "cri-proxy.log"
    if outcome.exit_status:
        words = log.read_text()[-4000:] if log.exists() else "the daemon was not started"
        pytest.fail(f"{outcome.output}\n{words}", pytrace=False)
    return Report(parse(json.loads((work / "out" / "placement.json").read_text())))


def test_one_whole_cpu_is_one_that_the_kernel_isolates(report: Report) -> None:
    isolated = report.seen["whole/one"]
    assert len(isolated.cpus) == 1
    assert isolated.cpus <= ISOLATED


def test_two_whole_cpus_are_the_two_threads_of_a_core(report: Report) -> None:
    low, high = report.seen["whole/two"].cpus
    assert (low % 2, high) == (0, low + 1)
    assert not report.seen["whole/two"].cpus & ISOLATED


@pytest.mark.parametrize("name", ["whole/one", "whole/two"])
def test_exclusive_cpus_are_in_nobody_elses_set(report: Report, name: str) -> None:
    assert report.seen[name].cpus.isdisjoint(report.others(name))


def test_a_mixed_container_has_two_cpus_of_its_own_and_shares_the_rest(report: Report) -> None:
    mixed = report.seen["whole/mixed"].cpus
    assert len(mixed) > 2
    assert len(mixed - report.others("whole/mixed")) >= 2


def test_shared_containers_never_run_on_isolated_or_reserved_cpus(report: Report) -> None:
    for name in ("together/alone", "together/front", "together/back", "apart/front", "apart/back"):
        assert report.seen[name].cpus.isdisjoint(ISOLATED | RESERVED), name


def test_system_pods_run_on_the_reserved_cpu(report: Report) -> None:
    assert report.seen["system/agent"].cpus == RESERVED


def test_memory_comes_from_the_nodes_of_the_cpus(report: Report) -> None:
    placed = {name: seen for name, seen in report.seen.items() if name != "system/agent"}
    assert {name: seen.mems for name, seen in placed.items()} == {name: seen.nodes for name, seen in placed.items()}


def test_containers_with_affinity_sit_on_the_same_cpus(report: Report) -> None:
    assert report.seen["together/front"] == report.seen["together/back"]
    assert len(report.seen["together/front"].nodes) == 1


def test_containers_with_anti_affinity_sit_on_different_nodes(report: Report) -> None:
    assert report.seen["apart/front"].nodes.isdisjoint(report.seen["apart/back"].nodes)
