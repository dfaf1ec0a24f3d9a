"""One boot for each topology, in which all its stories are played; the tests read what came back.

Without root or QEMU the tests are skipped and say so; with ``CI=true`` that is a failure.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.installer_image import build_image
from tests.testbed import certificates
from tests.tried import has_passed_whole, note, of_image
from tests.vm.report import Report
from tests.vm.rig.image import ensure_image, guest_python
from tests.vm.rig.machine import QEMU, Job, run_machine
from tests.vm.rig.packages import gather
from tests.vm.rig.topology import Topology

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
REMEDY = "apt-get install --no-install-recommends qemu-system-x86 e2fsprogs"
# A machine takes 220 on two idle cores, the one under systemd a third of that, the installer's some 200 of CPU
# time; all fit into the stage's 2400 seconds
BOOT_SECONDS = 1000.0
SYSTEMD_SECONDS = 400.0


def missing() -> str:
    """What keeps a machine from being built here; '' when nothing does."""
    if os.geteuid() != 0:
        return "the emulated machine's disk is built as root"
    programs = [name for name in (QEMU, "mkfs.ext4", "apt-get", "dpkg-deb") if shutil.which(name) is None]
    return f"not installed: {', '.join(programs)} ({REMEDY})" if programs else ""


def give_up(reason: str) -> None:
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Note with what versions this stage has passed."""
    if has_passed_whole(session, exitstatus):
        info = json.loads((ensure_image() / "info.json").read_text())
        note("emulated machines: placement, hotplug, drift, installer (tests/vm)", of_image(info))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed package with all it needs, for the guest's Python."""
    if reason := missing():
        give_up(reason)
    site = tmp_path_factory.mktemp("vm") / "site"
    gather(site, guest_python=guest_python(ensure_image()), repository=REPOSITORY)
    return site


@pytest.fixture(scope="session")
def two_packages(site: Path) -> Report:
    """Two packages of two NUMA nodes; CPUs 4n to 4n+3 belong to node n, two threads to a core; cgroup v2.

    The kernel isolates CPUs 3 and 7; CPU 0 is reserved.
    """
    return boot("2s4n-isol", "two_packages", site, cgroups="v2")


@pytest.fixture(scope="session")
def two_kinds(site: Path) -> Report:
    """Two packages of four CPUs with a DRAM node each (0, 1) and a memory-only node near each (2, 3); cgroup v1.

    The operator says that nodes 2 and 3 are PMEM; CPU 0 is reserved.
    """
    return boot("2s-pmem", "two_kinds", site, cgroups="v1")


@pytest.fixture(scope="session")
def under_systemd(site: Path) -> Report:
    """12 CPUs in one package, of which the kernel isolates 4-7 and 11; systemd is process 1 and makes the cgroups (v2).

    CPU 0 is reserved.
    """
    return boot("1s12", "under_systemd", site, cgroups="systemd", seconds=SYSTEMD_SECONDS)


@pytest.fixture(scope="session")
def untouched_node(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Four CPUs in one package; systemd is process 1, and containerd and the kubelet's stand-in are its services."""
    if not certificates.is_there():
        give_up("not installed: openssl")
    certificate = certificates.self_signed(tmp_path_factory.mktemp("api-server"))
    brought = (
        (build_image(tmp_path_factory.mktemp("installer")), "/rig/installer/image.tar"),
        (REPOSITORY / "packaging/kubernetes/installer/daemonset.yaml", "/rig/installer/daemonset.yaml"),
        (certificate.certificate, "/rig/installer/ca.crt"),
        (certificate.key, "/rig/installer/server.key"),
        (HERE.parent / "fakes" / "api_server.py", "/rig/stories/tests/fakes/api_server.py"),
    )
    return boot("1s4", "untouched_node", site, cgroups="systemd", brought=brought)


def boot(
    topology: str,
    stories: str,
    site: Path,
    *,
    cgroups: str,
    seconds: float = BOOT_SECONDS,
    brought: tuple[tuple[Path, str], ...] = (),
) -> Report:
    """Play these stories; ``cgroups`` is v1, v2, or systemd, which then is process 1.

    ``brought`` are more files for the machine, each with its path there.
    """
    out = site.parent / stories
    job = Job(
        command=("python3", "-m", f"tests.vm.stories.{stories}"),
        files=(
            (site, "/site"),
            (HERE / "stories", "/rig/stories/tests/vm/stories"),
            (HERE.parent / "testbed", "/rig/stories/tests/testbed"),  # with it they start a containerd and the daemon
            *brought,
        ),
        environment=(("PYTHONPATH", "/site:/rig/stories"), ("RIG_CGROUPS", cgroups)),
    )
    shape = Topology.from_json((HERE / "topologies" / f"{topology}.json").read_text())
    outcome = run_machine(shape, job, image=ensure_image(), out=out, timeout_seconds=seconds, echo=sys.stdout.write)
    print(outcome.steps_seconds, f"attempt {outcome.attempts}")
    log = out / "cri-proxy" / "cri-proxy.log"
    if outcome.exit_status:
        words = log.read_text()[-4000:] if log.exists() else "the daemon was not started"
        pytest.fail(f"{outcome.output}\n{words}", pytrace=False)
    return Report.from_json((out / "report.json").read_text(), log=log.read_text())
