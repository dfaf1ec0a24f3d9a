"""The deb and the rpm on roots of two Debian releases: refused, installed, run, upgraded under containers, removed."""

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from cri_proxy.cri_client.pods import IMAGE, KubeletNode, PodSpec, guaranteed
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from sysfs.descriptions.machine import describe
from tests.e2e.chroots import BUILD_SECONDS, Chroot, debian, missing
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

# The first test waits for a root that is made and a package that is built.
pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parent.parent.parent
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
MACHINE = describe({"packages": 1, "nodes": 2, "cores": 4, "memory": "8Gi"})
CONFIGURATION = """
availableResources: {cpu: "cpuset:0-1"}
http: "off"
runtimeEndpoint: unix:///run/runtime.sock
resourceFiles: never
"""
READY_SECONDS = 120.0
OURS = "/usr/bin/cri-proxy", "/usr/lib/cri-proxy", "/etc/cri-proxy/cri-proxy.yaml", "/usr/share/doc/cri-proxy"


@pytest.fixture(scope="module", params=sorted(PYTHONS))
def release(request: pytest.FixtureRequest) -> str:
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    return str(request.param)


@pytest.fixture(scope="module")
def chroot(release: str) -> Iterator[Chroot]:
    with debian(release) as made:
        yield made


@pytest.fixture(scope="session")
def rpm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("rpm")
    subprocess.run([ROOT / "packaging" / "rpm" / "build.sh", output], check=True, cwd=ROOT, timeout=BUILD_SECONDS)
    return next(output.glob("*.rpm"))


def newer(package: Path, directory: Path) -> Path:
    """The package with a later release number."""
    tree = directory / "newer"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    lines = control.read_text().splitlines()
    control.write_text("".join(f"{line}.1\n" if line.startswith("Version: ") else f"{line}\n" for line in lines))
    later = directory / "newer.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, later], check=True)
    shutil.rmtree(tree)
    return later


@asynccontextmanager
async def daemon_in(chroot: Chroot) -> AsyncIterator[None]:
    """The daemon as its unit would start it, until the end of the block."""
    command = chroot.started("/usr/bin/cri-proxy", "run", "--config", "/etc/cri-proxy/cri-proxy.yaml")
    with (chroot.root / "daemon.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:

        async def is_ready() -> bool:
            asked = chroot.run("cri-proxy status -o json", check=False)
            return asked.returncode == 0 and bool(json.loads(asked.stdout)["is_ready"])

        await until("the daemon is ready", is_ready, seconds=READY_SECONDS)
        yield
    finally:
        process.terminate()  # unshare has become chroot, and that the daemon
        process.wait(30)


def grants(chroot: Chroot) -> dict[str, str]:
    """The CPUs of every container."""
    found = json.loads(chroot.run("cri-proxy status -o json").stdout)["containers"]
    return {container["name"]: container["exclusive"] for container in found}


def test_lintian_finds_no_error(release: str, deb: Path) -> None:
    found = subprocess.run(["lintian", "--allow-root", deb], check=False, capture_output=True, text=True).stdout
    assert [line for line in found.splitlines() if line.startswith("E:")] == []


def test_without_a_python_it_is_refused_before_anything_is_unpacked(chroot: Chroot, deb: Path) -> None:
    shutil.copy(deb, chroot.root / "cri-proxy.deb")
    done = chroot.run("dpkg --install /cri-proxy.deb", check=False)
    assert done.returncode and "pre-depends on python3.11 | python3.12 | python3.13 | python3.14" in done.stdout
    assert not any(chroot.holds(path) for path in OURS)


def test_another_architecture_is_refused_too(chroot: Chroot, deb: Path, tmp_path: Path) -> None:
    control = tmp_path / "tree" / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    said = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True).stdout
    control.write_text(said.replace("Architecture: amd64", "Architecture: s390x"))
    subprocess.run(["dpkg-deb", "--build", tmp_path / "tree", chroot.root / "other.deb"], check=True)
    done = chroot.run("dpkg --install /other.deb", check=False)
    assert done.returncode and "does not match system" in done.stdout


def test_apt_installs_it_with_its_python(chroot: Chroot, release: str) -> None:
    chroot.run("apt-get -q update && apt-get -q -y install --no-install-recommends /cri-proxy.deb")
    assert chroot.run("cri-proxy --version").stdout.startswith("cri-proxy 0.1.0 (commit ")
    tag = f"cpython-{PYTHONS[release].replace('.', '')}"
    assert chroot.holds(f"/usr/lib/cri-proxy/cri_proxy/cli/__pycache__/main.{tag}.pyc")
    assert "Apache" in chroot.run("cat /usr/share/doc/cri-proxy/copyright").stdout
    scenario = "/usr/share/doc/cri-proxy/examples/configs/scenarios/first-steps.yaml"
    assert chroot.run(f"cri-proxy simulate {scenario}").returncode == 0


async def test_neither_an_upgrade_nor_the_way_back_changes_a_containers_cpus(
    chroot: Chroot, deb: Path, tmp_path: Path
) -> None:
    (chroot.root / "etc/cri-proxy/cri-proxy.yaml").write_text(CONFIGURATION)
    runtime = ScriptedRuntime(MACHINE, image_names=(IMAGE,))
    server = RuntimeServer(runtime, f"unix://{chroot.root}/run/runtime.sock")
    await server.start()
    client = RuntimeClient(f"unix://{chroot.root}/run/cri-proxy/cri-proxy.sock")
    kubelet = PodKubelet(client, KubeletNode(4 << 30, log_directory="", image=IMAGE))
    async with daemon_in(chroot):
        await kubelet.run_pod(PodSpec("web", (guaranteed("owns", 1000),)))
        before = grants(chroot)
        assert before["owns"]
    shutil.copy(newer(deb, tmp_path), chroot.root / "newer.deb")
    updates = len(runtime.updates)
    for package in ("newer.deb", "cri-proxy.deb"):
        chroot.run(f"dpkg --install /{package}")
        async with daemon_in(chroot):
            assert grants(chroot) == before
    assert len(runtime.updates) == updates
    assert "runtimeEndpoint" in (chroot.root / "etc/cri-proxy/cri-proxy.yaml").read_text()
    await client.close()
    await server.stop()


def test_it_is_removed_and_purged_to_the_last_file(chroot: Chroot) -> None:
    chroot.run("dpkg --remove cri-proxy")
    assert [path for path in OURS if chroot.holds(path)] == ["/etc/cri-proxy/cri-proxy.yaml"]
    assert chroot.holds("/var/lib/cri-proxy/state.db")
    chroot.run("dpkg --purge cri-proxy")
    assert not chroot.holds("/etc/cri-proxy") and not chroot.holds("/var/lib/cri-proxy")


def test_the_rpm_brings_the_same_program(chroot: Chroot, rpm: Path, release: str) -> None:
    """By rpm of Debian, whose database knows no dependencies: scripts and files are what is tried."""
    base = ["rpm", "--root", str(chroot.root)]
    subprocess.run([*base, "--initdb"], check=True)
    subprocess.run([*base, "--install", "--nodeps", rpm], check=True, timeout=400)
    assert chroot.run("cri-proxy --version").stdout.startswith("cri-proxy 0.1.0 (commit ")
    tag = f"cpython-{PYTHONS[release].replace('.', '')}"
    assert chroot.holds(f"/usr/lib/cri-proxy/cri_proxy/cli/__pycache__/main.{tag}.pyc")
    assert "Apache License" in (chroot.root / "usr/share/licenses/cri-proxy/Apache-2.0").read_text()
    asked = subprocess.run(["rpm", "-qp", "--requires", "--qf", "%{LICENSE}\n", rpm], check=True, capture_output=True)
    assert b"python(abi) = 3.11 or python(abi) = 3.12" in asked.stdout and b"Apache-2.0" in asked.stdout
    environment = {**os.environ, "CRI_PROXY_REMOVE": "yes"}
    subprocess.run([*base, "--erase", "cri-proxy"], check=True, env=environment, timeout=400)
    assert not chroot.holds("/usr/lib/cri-proxy") and not chroot.holds("/usr/bin/cri-proxy")


@pytest.mark.parametrize("release", ["trixie"], indirect=True)  # bookworm's kubectl is of 2020
def test_kubectl_makes_the_objects_that_are_tested_of_the_overlays(chroot: Chroot) -> None:
    shutil.copytree(ROOT / "packaging" / "kubernetes", chroot.root / "kubernetes")
    chroot.run("apt-get -q update && apt-get -q -y install --no-install-recommends kubernetes-client")
    for directory, golden in (
        ("overlays/fleet", "fleet"),
        ("canary", "canary"),
        ("exporter-condition", "exporter-condition"),
    ):
        made = yaml.safe_load_all(chroot.run(f"kubectl kustomize /kubernetes/{directory}").stdout)
        assert [*made] == [*yaml.safe_load_all((ROOT / f"tests/golden/manifests/{golden}.yaml").read_text())]


@pytest.mark.parametrize("release", ["trixie"], indirect=True)  # bookworm's policy knows no kubelet
def test_our_selinux_module_lets_the_kubelet_call_the_daemon_and_no_container(chroot: Chroot) -> None:
    """In the reference policy, with no kernel that enforces it: what ``restorecon`` would set, and the rules."""
    packages = "selinux-policy-default policycoreutils selinux-utils setools"
    chroot.run(f"apt-get -q update && apt-get -q -y install --no-install-recommends {packages}")
    policy, contexts = "/etc/selinux/default/policy/policy.*", "/etc/selinux/default/contexts/files/file_contexts"

    def may(domain: str, *words: str) -> bool:
        return bool(chroot.run(f"sesearch --allow -s {domain} {' '.join(words)} {policy}").stdout.strip())

    calling = "-t initrc_t -c unix_stream_socket -p connectto"
    assert not may("kubelet_t", calling)
    shutil.copy(ROOT / "packaging" / "selinux" / "refpolicy.cil", chroot.root / "cri-proxy.cil")
    chroot.run("semodule --noreload --store default --install /cri-proxy.cil")
    assert (may("kubelet_t", calling), may("container_t", calling)) == (True, False)
    assert may("kubelet_t", "-t container_runtime_t -c sock_file -p write")
    assert may("dockerd_t", "-t container_file_t -c dir -p relabelfrom,relabelto")
    assert may("container_t", "-t container_file_t -c file -p read")
    assert not may("container_t", "-t var_lib_t -c file -p read")
    labels = {
        "dir /run/cri-proxy": "container_runtime_t",
        "socket /run/cri-proxy/cri-proxy.sock": "container_runtime_t",
        "dir /var/lib/cri-proxy/containers/ID": "container_file_t",
        "file /var/lib/cri-proxy/state.db": "var_lib_t",
        "file /usr/bin/cri-proxy": "bin_t",
        "file /opt/cri-proxy/0.1.0/bin/cri-proxy": "bin_t",
    }
    asked = {each: chroot.run(f"matchpathcon -n -f {contexts} -m {each}").stdout for each in labels}
    assert {each: said.split(":")[2] for each, said in asked.items()} == labels
