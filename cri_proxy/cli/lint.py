"""``cri-proxy lint``: what the daemon would say of the pods of manifests, and what CRI does not let it see."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cri_proxy.cli.output import emit
from cri_proxy.errors import CommandFailed
from policies.base import QosClass
from sysfs.known_words import did_you_mean

if TYPE_CHECKING:
    from cri_proxy.cri.annotations.forms import AnnotationProblem
    from cri_proxy.cri.annotations.pod import PodAnnotations
    from cri_proxy.cri.annotations.rules import AnnotationRules
    from cri_proxy.simulate.manifests import PodManifest

EXAMPLE = """\
cri-proxy lint configs/pods/database.yaml
cri-proxy lint --config configs/shared-node.yaml configs/pods/database.yaml
helm template my-chart | cri-proxy lint -"""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark about a place in a file; ``column`` 0: the whole line. A ``problem`` makes the exit status 1."""

    file: str
    line: int
    column: int
    severity: Literal["problem", "warning", "note"]
    workload: str
    text: str

    def __str__(self) -> str:
        place = ":".join((self.file, str(self.line), *([str(self.column)] if self.column else [])))
        return f"{place}: {self.severity}: {self.workload}: {self.text}".replace(": : ", ": ")


@dataclass(frozen=True, slots=True)
class LintReport:
    """The remarks, by file and place, and how many pods and templates of pods were read."""

    remarks: tuple[Remark, ...]
    pods: int

    @property
    def problems(self) -> int:
        """How many problems there are."""
        return sum(remark.severity == "problem" for remark in self.remarks)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "path", nargs="+", metavar="FILE", help="a manifest, a directory of them, or - (standard input)"
    )
    parser.add_argument("--config", type=Path, metavar="PATH", help="the nodes' configuration (default: the defaults)")
    parser.add_argument(
        "--namespace", default="default", help="namespace for objects that do not set one (default: default)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the remarks; 1 where one of them is a problem. Raises CommandFailed for files that cannot be read."""
    from cri_proxy.cli.manifests import texts_of
    from cri_proxy.yaml_fields import DocumentError

    rules = _rules(args.config)
    remarks: list[Remark] = []
    count = 0
    for name, text in texts_of(args.path):
        if isinstance(text, DocumentError):
            raise CommandFailed(str(text))
        found, pods = lint(text, name, args.namespace, rules)
        remarks += found
        count += pods
    report = LintReport(tuple(remarks), count)
    emit(report, args.output, render_report)
    return 1 if report.problems else 0


def render_report(report: LintReport) -> str:
    """Return a line for each remark, and one for all."""
    from sysfs.text import plural

    pods, problems = plural(report.pods, "pod"), plural(report.problems, "problem")
    return "\n".join((*map(str, report.remarks), f"{pods} checked, {problems}"))


def _rules(config: Path | None) -> "AnnotationRules":
    from cri_proxy.config.files.location import ConfigLocation
    from cri_proxy.config.load import load_source
    from cri_proxy.config.model import Config

    if config is None:
        return Config().creation_rules
    place = ConfigLocation(config, "", "")
    return load_source(place, place.read(may_wait=True)).config.creation_rules


def lint(text: str, file: str, namespace: str, rules: "AnnotationRules") -> tuple[list[Remark], int]:
    """Return the remarks on a text, and the number of its pods. What is not YAML is a problem."""
    from cri_proxy.bounded_yaml import YamlError
    from cri_proxy.simulate.manifests import read_manifests

    remarks: list[Remark] = []
    count = 0
    try:
        for pod in read_manifests(text):
            count += 1
            place = (pod.line, 0)
            for severity, (line, column), said in _of_pod(pod, pod.namespace or namespace, rules, place):
                remarks.append(Remark(file, line, column, severity, pod.workload, said))
    except YamlError as error:
        remarks.append(Remark(file, error.line, 0, "problem", "", error.problem))
    return sorted(remarks, key=lambda remark: (remark.line, remark.column)), count


_Said = tuple[Literal["problem", "warning", "note"], tuple[int, int], str]


def _of_pod(pod: "PodManifest", namespace: str, rules: "AnnotationRules", at: tuple[int, int]) -> Iterator[_Said]:
    """Yield what there is to say of a pod, with line and column; of one without our annotations nothing."""
    from cri_proxy.bounded_yaml import Scalar
    from cri_proxy.cri.annotations.forms import key_in
    from cri_proxy.cri.annotations.pod import parse_pod, select
    from cri_proxy.cri.annotations.read import read_container
    from cri_proxy.cri.annotations.resource_managers import DEVICE_ALLOCATED, OF_OTHERS, OF_PEERS, RESOURCE_STATUS
    from cri_proxy.simulate.manifests import qos_of_pod

    places = {item.key: (item.line, item.column) for item in pod.annotations}
    texts = {item.key: item.value for item in pod.annotations}
    chosen = select({k: v.text if isinstance(v, Scalar) else "" for k, v in texts.items()}, rules.domains)
    read = parse_pod(chosen, rules.domains)
    for key in read.texts:
        value = texts[key]
        if not isinstance(value, Scalar) or value.kind != "str":
            yield "problem", places[key], f"annotation {key}: quote the value: Kubernetes takes strings alone"
    wrong: dict[AnnotationProblem, list[str]] = {}
    for container in pod.containers:
        for problem in read_container(read, container.name, namespace, rules).problems:
            wrong.setdefault(problem, []).append(container.name)
    for problem, names in wrong.items():
        whom = "" if len(names) == len(pod.containers) else f" (container {', '.join(names)})"
        yield "problem", places.get(problem.key, at), f"{problem}{whom}"
    yield from _absent(pod, read, places, rules)
    for key in read.texts:
        if key in OF_OTHERS - {RESOURCE_STATUS, DEVICE_ALLOCATED} or key_in(key, rules.domains) in OF_PEERS:
            yield "warning", places[key], f"annotation {key}: known, without effect here"
    qos, why = qos_of_pod(pod)
    if read.texts and qos is not QosClass.GUARANTEED:
        yield "note", at, f"{qos}{f', since {why}' if why else ''}: no container gets CPUs of its own"


def _absent(
    pod: "PodManifest", read: "PodAnnotations", places: dict[str, tuple[int, int]], rules: "AnnotationRules"
) -> Iterator[_Said]:
    """Yield the names in annotations that no container has."""
    from cri_proxy.cri.annotations.pod import named_in

    names = [container.name for container in pod.containers]
    for key, text in read.texts.items():
        for name in named_in(key, text, rules.domains):
            if name not in names:
                yield "problem", places[key], f"annotation {key}: no container {name!r}; {did_you_mean(name, names)}"
