"""List the containers of a status that are not as they ask, or were refused, and format them by workload. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.cli.render.columns import paint, paragraph
from cri_proxy.node.status.containers import Unmet
from cri_proxy.node.status.model import ContainerView, StatusView
from policies.container_name import ContainerName
from sysfs.text import some

_NAMES_SHOWN: Final = 4
_WORDS: Final[Mapping[str, str]] = {
    Unmet.OVERCOMMITTED: "overcommitted: no CPU time is booked for its request",
    Unmet.CPUS_WIDER: "its own CPUs are on several NUMA nodes",
    Unmet.MEMORY_WIDER: "it may use memory nodes beyond its pool's",
    Unmet.CONTESTED: "other containers can run on its own CPUs",
    Unmet.ANNOTATION_IGNORED: "an annotation could not be read: explain has the reason",
}


@dataclass(frozen=True, slots=True)
class NotAsAsked(ContainerName):
    """A container with something amiss: ``problems`` are sentences, ``workload`` what made its pod."""

    workload: str
    problems: tuple[str, ...]


def problems_of(view: StatusView, namespace: str = "") -> list[NotAsAsked]:
    """Return the containers with something amiss, by name, then the refused ones; '' = of any namespace."""
    held = (NotAsAsked(c.namespace, c.pod, c.name, c.workload, tuple(_sentences(c))) for c in view.containers)
    refused = (NotAsAsked(r.namespace, r.pod, r.name, r.pod, (r.text,)) for r in view.refused)
    return [each for each in (*held, *refused) if each.problems and namespace in ("", each.namespace)]


def _sentences(container: ContainerView) -> Iterator[str]:
    # A note has the names and figures of the same.
    noted = {Unmet.OVERCOMMITTED, Unmet.CONTESTED}
    yield from (_WORDS[code] for code in container.unmet if code in _WORDS and code not in noted)
    yield from container.notes


def render_problems(problems: Sequence[NotAsAsked], *, colours: bool, width: int) -> str:
    """Return what is amiss, each with the containers that it is true of; those of a workload are counted."""
    if not problems:
        return "every container is as it asks"
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for each in problems:
        for text in each.problems:
            groups.setdefault((each.namespace, each.workload, each.name, text), []).append(each.pod)
    lines = []
    for (namespace, workload, name, text), pods in groups.items():
        whose = f"{namespace}/{pods[0] if len(pods) == 1 else workload}/{name}"
        lines.append(paint(whose if len(pods) == 1 else f"{whose} in {len(pods)} pods", "bold", colours=colours))
        lines += paragraph(text, "    ", first="  ! ", width=width)
        lines += paragraph(f"pods: {some(pods, _NAMES_SHOWN)}", "    ", width=width) if len(pods) > 1 else []
    return "\n".join(lines)
