"""What came back from an emulated machine: who the kernel let run where at each step, and facts besides."""

import json
from dataclasses import dataclass
from typing import Any, Self

from sysfs.cpuset import CpuSet, NodeSet


@dataclass(frozen=True, slots=True)
class Seen:
    """What the kernel allowed one container: its first process, and the file of its cgroup that was written."""

    cpus: CpuSet
    mems: NodeSet
    written: CpuSet
    pid: int


@dataclass(frozen=True, slots=True)
class Report:
    """``steps`` are by name, then by 'pod/container'; ``log`` is what the daemon printed."""

    steps: dict[str, dict[str, Seen]]
    facts: dict[str, Any]
    log: str

    @classmethod
    def from_json(cls, text: str, *, log: str) -> Self:
        raw = json.loads(text)
        steps = {
            step: {
                name: Seen(
                    CpuSet.parse(look["cpus"]),
                    NodeSet.parse(look["mems"]),
                    CpuSet.parse(look["cpus_file"]),
                    look["pid"],
                )
                for name, look in looks.items()
            }
            for step, looks in raw["looks"].items()
        }
        return cls(steps, raw["facts"], log)

    def lines(self) -> list[dict[str, Any]]:
        """Everything that the daemon logged, oldest first."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def events(self, name: str, container: str) -> list[dict[str, Any]]:
        """What the daemon logged under this name of a container, by 'pod/container', oldest first."""
        return [
            line
            for line in self.lines()
            if (line["event"], f"{line.get('pod')}/{line.get('container')}") == (name, container)
        ]
