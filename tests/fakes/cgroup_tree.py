"""Cgroups of containers written on disk, v1 and v2, for what reads them."""

from pathlib import Path

V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/cpuset"


class CgroupTree:
    """``proc`` and ``sys/fs/cgroup`` below a directory."""

    def __init__(self, root: Path, *, v1: bool = False) -> None:
        self.root = root
        self._mount = V1 if v1 else V2
        self._line = "4:cpuset:" if v1 else "0::"

    def directory(self, container_id: str, parent: str = "kubepods/pod-1") -> Path:
        return self.root / self._mount / parent / container_id

    def write_online(self, cpus: str) -> None:
        """The CPUs that the kernel says are online."""
        file = self.root / "sys/devices/system/cpu/online"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{cpus}\n")

    def write_possible(self, cpus: str) -> None:
        """The CPUs that there can ever be."""
        file = self.root / "sys/devices/system/cpu/possible"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{cpus}\n")

    def flee(self, pid: int, container_id: str, cpus: str) -> None:
        """What v1 does when all CPUs of the cgroup go offline: its processes are in the pod's cgroup from then on."""
        pod = self.directory(container_id).parent
        (pod / "cpuset.cpus").write_text(f"{cpus}\n")
        (pod / "cpuset.mems").write_text("0-1\n")
        path = "/" + str(pod.relative_to(self.root / self._mount))
        (self.root / "proc" / str(pid) / "cgroup").write_text(f"12:memory:{path}/{container_id}\n{self._line}{path}\n")

    def write_unit(self, name: str, **sets: str) -> None:
        """The properties of a scope unit that were set after its creation, as systemd keeps them (AllowedCPUs=8-9)."""
        directory = self.root / f"run/systemd/transient/{name}.d"
        directory.mkdir(parents=True, exist_ok=True)
        for key, text in sets.items():
            lines = f"# This is a drop-in unit file extension\n[Scope]\n{key}=\n{key}={text}\n"
            (directory / f"50-{key}.conf").write_text(lines)

    def write(self, pid: int, container_id: str, cpus: str, mems: str, *, below: str = "") -> Path:
        """A container whose process sits ``below`` its cgroup; '' for a set means that it inherits (v2)."""
        directory = self.directory(container_id)
        directory.mkdir(parents=True, exist_ok=True)
        files = {"cpuset.cpus": cpus, "cpuset.mems": mems}
        files |= {"cpuset.cpus.effective": cpus or "0-7", "cpuset.mems.effective": mems or "0-1"}
        for name, text in files.items():
            (directory / name).write_text(f"{text}\n" if text else "\n")
        proc = self.root / "proc" / str(pid)
        proc.mkdir(parents=True, exist_ok=True)
        path = "/" + str(directory.relative_to(self.root / self._mount)) + below
        others = "12:memory:/elsewhere\n" if self._mount == V1 else ""
        (proc / "cgroup").write_text(f"{others}{self._line}{path}\n")
        return directory
