"""Made-up roots: files and processes with which distributions of Kubernetes start a kubelet, for ``doctor --root``."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.doctor.facts.node import Places, look_at_node
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import write_tree

OURS, THEIRS = "unix:///run/cri-proxy/cri-proxy.sock", "unix:///run/containerd/containerd.sock"
K3S_SOCKET = "/run/k3s/containerd/containerd.sock"
CONFIG = "var/lib/kubelet/config.yaml"
STATE = '{"policyName":"static","defaultCpuSet":"0-7","checksum":1}'
OPTIONS = 'cpuManagerPolicyOptions: {full-pcpus-only: "true"}\n'
_HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
_RANCHER_DROP_IN = f"{_HEAD}cgroupDriver: systemd\ncontainerRuntimeEndpoint: unix://{K3S_SOCKET}\n"


@dataclass(frozen=True)
class MadeUpRoot:
    """``files`` by path; ``processes``: name and words by pid; ``config`` is the file with the KubeletConfiguration."""

    files: Mapping[str, str]
    processes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    config: str = ""

    def with_config(self, text: str) -> "MadeUpRoot":
        """The same root with these lines in the kubelet's configuration."""
        return MadeUpRoot({**self.files, self.config: f"{_HEAD}{text}"}, self.processes, self.config)


def _unit(command: str) -> str:
    return f"[Service]\nExecStart={command}\n"


def _rancher(program: str, unit: str, process: str) -> MadeUpRoot:
    data = f"var/lib/rancher/{program}/agent/etc"
    return MadeUpRoot(
        {
            f"etc/rancher/{program}/config.yaml": "kubelet-arg:\n- cpu-manager-policy=static\n- reserved-cpus=0\n",
            f"{data}/kubelet.conf.d/00-{program}-defaults.conf": _RANCHER_DROP_IN,
            f"etc/systemd/system/{unit}": _unit(f"/usr/local/bin/{program} server"),
            "var/lib/kubelet/cpu_manager_state": STATE,
        },
        {700: (process, f"/usr/local/bin/{program}", "server")},
        f"{data}/kubelet.conf.d/50-mine.conf",
    )


def _eks() -> MadeUpRoot:
    directory = "etc/kubernetes/kubelet/config.json"
    words = ("/usr/bin/kubelet", f"--config=/{directory}", f"--config-dir=/{directory}.d")
    return MadeUpRoot(
        {
            "etc/systemd/system/kubelet.service": "[Service]\nEnvironmentFile=/etc/eks/kubelet/environment\n"
            "ExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS\n",
            "etc/eks/kubelet/environment": f'NODEADM_KUBELET_ARGS="{" ".join(words[1:])}"\n',
            directory: f'{{"containerRuntimeEndpoint": "{THEIRS}", "kubeReserved": {{"cpu": "110m"}}, '
            '"kubeReservedCgroup": "/runtime", "systemReservedCgroup": "/system", "cgroupDriver": "systemd"}',
            f"{directory}.d/40-nodeadm.conf": f"{_HEAD}cpuManagerPolicy: static\n{OPTIONS}",
        },
        {700: ("kubelet", *words)},
        f"{directory}.d/40-nodeadm.conf",
    )


def _kubeadm(config: str = "", extra: str = "") -> MadeUpRoot:
    words = ("/usr/bin/kubelet", f"--config=/{CONFIG}")
    return MadeUpRoot(
        {
            "usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": "[Service]\n"
            "EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet\n"
            f"ExecStart={' '.join(words)} $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n",
            "var/lib/kubelet/kubeadm-flags.env": f'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint={THEIRS}"\n',
            "etc/default/kubelet": f'KUBELET_EXTRA_ARGS="{extra}"\n',
            CONFIG: f"{_HEAD}cgroupDriver: systemd\n{config}",
            "var/lib/kubelet/cpu_manager_state": STATE,
        },
        {700: ("kubelet", *words)},
        CONFIG,
    )


def _snap(arguments: str, root: str) -> MadeUpRoot:
    return MadeUpRoot(
        {
            arguments: f"--root-dir={root}\n--container-runtime-endpoint=${{SNAP_COMMON}}/run/containerd.sock\n"
            "--cpu-manager-policy=static\n--cpu-manager-policy-options=full-pcpus-only=true\n--kube-reserved=cpu=500m\n"
        }
    )


ROOTS: Mapping[str, MadeUpRoot] = {
    "k3s": _rancher("k3s", "k3s.service", "k3s-server"),
    "RKE2": _rancher("rke2", "rke2-server.service", "rke2"),
    "MicroK8s": _snap("var/snap/microk8s/current/args/kubelet", "${SNAP_COMMON}/var/lib/kubelet"),
    "Canonical Kubernetes (k8s-snap)": _snap("var/snap/k8s/common/args/kubelet", "/var/lib/kubelet"),
    "EKS (nodeadm, AL2023)": _eks(),
    "kubespray": MadeUpRoot(
        {
            "etc/systemd/system/kubelet.service": "[Service]\nEnvironmentFile=-/etc/kubernetes/kubelet.env\n"
            "ExecStart=/usr/local/bin/kubelet $KUBELET_ARGS\n",
            "etc/kubernetes/kubelet.env": f'KUBELET_ARGS="--config=/etc/kubernetes/kubelet-config.yaml '
            f'--container-runtime-endpoint={THEIRS} --cpu-manager-policy=static"\n',
            "etc/kubernetes/kubelet-config.yaml": f"{_HEAD}{OPTIONS}systemReserved: {{cpu: 500m}}\n",
        },
        {},
        "etc/kubernetes/kubelet-config.yaml",
    ),
    "kubeadm": _kubeadm(f'cpuManagerPolicy: static\n{OPTIONS}reservedSystemCPUs: "0-1"\n'),
    "kubeadm, by flags": _kubeadm(
        OPTIONS, "--cpu-manager-policy=static --cpu-manager-policy-options=strict-cpu-reservation=true"
    ),
    "kubeadm, options that stayed": _kubeadm(f"cpuManagerPolicy: none\n{OPTIONS}memoryManagerPolicy: none\n"),
    "Talos": MadeUpRoot({"etc/os-release": "NAME=Talos\nID=talos\n"}),
    "Bottlerocket": MadeUpRoot({"usr/lib/os-release": "ID=bottlerocket\n"}),
}


@contextmanager
def written(root: MadeUpRoot, parent: str | None = None) -> Iterator[Path]:
    """The root on a disk, with the small machine."""
    with TemporaryDirectory(prefix="root-", dir=parent) as directory:
        place = Path(directory)
        for name, text in root.files.items():
            put(place, name, text)
        put(place, "proc/stat", "cpu  0 0 0 0 0 0 0 0 0 0\nbtime 1700000000\n")
        for pid, (name, *words) in root.processes.items():
            put(place, f"proc/{pid}/stat", f"{pid} ({name[:15]}) S 1 1 1 0 -1 0{' 0' * 12} 1000{' 0' * 30}\n")
            put(place, f"proc/{pid}/status", f"Name:\t{name[:15]}\nState:\tS (sleeping)\n")
            put(place, f"proc/{pid}/cmdline", "\0".join(words) + "\0")
            (place / f"proc/{pid}/fd").mkdir()
        (place / "sys").symlink_to(Path(_machine().name) / "sys")
        yield place


@cache
def _machine() -> TemporaryDirectory[str]:
    """The small machine, written once."""
    directory = TemporaryDirectory(prefix="machine-")
    write_tree(Path(directory.name), small_machine())
    return directory


def put(root: Path, name: str, text: str) -> None:
    """Write a file below the root."""
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def looked_at(root: Path) -> HostFacts:
    """The facts of this root, with no daemon."""
    return look_at_node(Places(root, Path("/run/cri-proxy/admin.sock"), Path("/etc/cri-proxy/cri-proxy.yaml")))
