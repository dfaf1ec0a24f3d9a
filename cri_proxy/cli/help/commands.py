"""The table of commands: what each does, the module that does it, and the headings of the overview."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PROG: Final = "cri-proxy"


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command, or an action of one, by its words: what it does, and its module below ``cli`` (default: its name).

    ``has_output``: it prints a result, and hence has -o/--output.
    """

    name: str
    text: str
    module: str = ""
    has_output: bool = True

    @property
    def path(self) -> str:
        """Its module, as Python imports it."""
        return f"cri_proxy.cli.{self.module or self.name.replace('-', '_')}"

    @property
    def actions(self) -> Mapping[str, "CommandRow"]:
        """Its actions by name; none for most commands."""
        return {row.name.rpartition(" ")[2]: row for row in ACTIONS if row.name.startswith(f"{self.name} ")}


GROUPS: Final[Mapping[str, tuple[CommandRow, ...]]] = {
    "every day": (
        CommandRow("status", "show the running daemon's pools and the containers in them"),
        CommandRow("explain", "say why a container is where it is, or was refused"),
        CommandRow("events", "list what has happened: placements, moves, refusals, ends, reloads", "watch.events"),
        CommandRow(
            "fit", "ask the running daemon where pods would land now, who would move, or why not; nothing changes"
        ),
        CommandRow("doctor", "check the node, its kubelet and the daemon; list the changes to make, in order"),
        CommandRow("check-config", "check a configuration, and show what it would change against the running daemon"),
        CommandRow("lint", "check the annotations of pods in manifests as the daemon reads them, and more"),
    ),
    "try and plan": (
        CommandRow("demo", "watch an emulated two-socket machine fill with pods, and see why"),
        CommandRow("simulate", "place pods on any machine and see where they go, without root or runtime"),
        CommandRow(
            "convert",
            "write a configuration of cri-resource-manager or nri-plugins as ours, with comments",
            has_output=False,
        ),
        CommandRow("topology", "show packages, NUMA nodes, caches, cores and devices of a machine"),
        CommandRow("capture", "archive the files that discovery reads of this machine, for bug reports and simulation"),
        CommandRow(
            "hints", "topology hints: merge them, generate them for a request, or compare the policies", "hint_actions"
        ),
    ),
    "devices": (
        CommandRow(
            "devices",
            "devices of a node: list them, allocate those that go together, offer their NUMA nodes, declare them",
            "device_actions",
        ),
        CommandRow(
            "gpu",
            "links between GPUs: show a matrix, choose GPUs, score the node, publish it for the scheduler",
            "gpu_actions",
        ),
        CommandRow("select", "choose the cheapest set of devices and CPUs of a listing of costs"),
        CommandRow("costs", "costs between CPUs, memory and devices: derive them from a machine", "cost_actions"),
    ),
    "services": (
        CommandRow("run", "run the daemon: relay CRI calls to the runtime and place containers", has_output=False),
        CommandRow(
            "device-plugin",
            "offer GPUs, NICs and other devices to the kubelet, and tell it which of them go together",
            "agents.device_plugin",
            has_output=False,
        ),
        CommandRow(
            "extender",
            "rank nodes for kube-scheduler by the links of their GPUs, as its extender over HTTP",
            "agents.extender",
            has_output=False,
        ),
        CommandRow(
            "exporter",
            "keep the node's NodeResourceTopology object in the cluster, and write Events about its pods",
            "agents.exporter",
            has_output=False,
        ),
        CommandRow(
            "config-agent",
            "copy a mounted ConfigMap to a directory of the host, whenever it changes",
            "agents.config_agent",
            has_output=False,
        ),
        CommandRow(
            "installer",
            "install cri-proxy on the host of a pod and lead its kubelet to it, or take both back",
            "agents.installer",
            has_output=False,
        ),
        CommandRow(
            "completion", "print the completion script of bash, zsh or fish", "help.completion", has_output=False
        ),
        CommandRow("reset", "widen every container back to all CPUs and memory nodes, while the daemon is stopped"),
    ),
}
"""The commands by the headings of the overview."""
ACTIONS: Final = (
    CommandRow(
        "hints merge",
        "print the affinity that a policy makes of the hints of several providers, and whether it admits",
        "hint_actions.merge",
    ),
    CommandRow(
        "hints generate",
        "print the topology hints of a request for CPUs, memory and devices, as the kubelet's managers give them",
        "hint_actions.generate",
    ),
    CommandRow(
        "hints compare",
        "print what every policy makes of every pair of hint lists that two providers can offer",
        "hint_actions.compare",
    ),
    CommandRow(
        "devices list",
        "show devices by NUMA node and PCIe: of an inventory, a request, a machine, or the kubelet's device plugins",
        "device_actions.list",
    ),
    CommandRow(
        "devices allocate",
        "choose the devices that a container asks for: GPUs, NICs and VFs by their place to each other",
        "device_actions.allocate",
    ),
    CommandRow(
        "devices hints",
        "print the NUMA nodes on which the devices of a request can be had, as hints for cri-proxy hints merge",
        "device_actions.hints",
    ),
    CommandRow(
        "devices cdi",
        "declare the NICs and VFs of a node for CDI: their VFIO groups, RDMA devices or interfaces, "
        "as grants name them",
        "device_actions.cdi",
    ),
    CommandRow(
        "gpu topology",
        "show the matrix of links that nvidia-smi or AMD's tools have printed, or that a YAML file has",
        "gpu_actions.topology",
    ),
    CommandRow(
        "gpu allocate", "choose GPUs by the links between them, as NVIDIA's device plugin does", "gpu_actions.allocate"
    ),
    CommandRow(
        "gpu score",
        "score the node from 0 to 100 for a pod that requests GPUs, by the links between those it would get",
        "gpu_actions.score",
    ),
    CommandRow(
        "gpu publish",
        "print the matrix as an annotation of the node, or write it as a feature file, for cri-proxy extender",
        "gpu_actions.publish",
    ),
    CommandRow(
        "costs derive",
        "print the costs between CPUs, memory nodes and devices of a machine, for cri-proxy select",
        "cost_actions.derive",
    ),
)
ROWS: Final = {row.name: row for row in (*(row for rows in GROUPS.values() for row in rows), *ACTIONS)}
COMMANDS: Final = tuple(name for name in ROWS if " " not in name)
