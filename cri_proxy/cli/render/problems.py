"""List the containers of a status that are not as they ask, or were refused, and format them by workload. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.cli.render.columns import paint, paragraph
from cri_proxy.node.status.model import ContainerView, StatusView, Unmet
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
    """A container with something amiss: ``problems`` are sentences, ``workload`` what made its pod.

    ``is_refused``: it was refused or not created, and holds nothing.
    """

    workload: str
    problems: tuple[str, ...]
    is_refused: bool = False


def problems_of(view: StatusView, namespace: str = "") -> list[NotAsAsked]:
    """Return the containers with something amiss, by name, then the refused ones; '' = of any namespace."""
    held = (NotAsAsked(c.namespace, c.pod, c.name, c.workload, tuple(_sentences(c))) for c in view.containers)
    refused = (
        NotAsAsked(r.namespace, r.pod, r.name, r.workload or r.pod, (r.text,), is_refused=True) for r in view.refused
    )
    return [each for each in (*held, *refused) if each.problems and namespace in ("", each.namespace)]


def _sentences(container: ContainerView) -> Iterator[str]:
    # A note has the names and figures of the same.
    noted = {Unmet.OVERCOMMITTED, Unmet.CONTESTED}
    yield from (_WORDS[code] for code in container.unmet if code in _WORDS and code not in noted)
    yield from container.notes


def render_problems(problems: Sequence[NotAsAsked], *, more_refused: int = 0, colours: bool, width: int) -> str:
    """Return what is amiss, each with the containers that it is true of; those of a workload are counted.

    Refused ones of a workload are one group with the newest refusal, as figures of the moment differ from pod to pod.
    ``more_refused`` were refused and are not listed, in any namespace.
    """
    if not problems and not more_refused:
        return "every container is as it asks"
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    newest: dict[tuple[str, str, str], str] = {}
    for each in problems:
        whose = (each.namespace, each.workload, each.name)
        for text in each.problems:
            shown = newest.setdefault(whose, text) if each.is_refused else text
            groups.setdefault((*whose, shown), []).append(each.pod)
    lines: list[str] = []
    for (namespace, workload, name, text), pods in groups.items():
        title = f"{namespace}/{pods[0] if len(pods) == 1 else workload}/{name}"
        lines.append(paint(title if len(pods) == 1 else f"{title} in {len(pods)} pods", "bold", colours=colours))
        lines += paragraph(text, "    ", first="  ! ", width=width)
        lines += paragraph(f"pods: {some(pods, _NAMES_SHOWN)}", "    ", width=width) if len(pods) > 1 else []
    if more_refused:
        lines.append(f"and {more_refused} more refused in the last hour, in any namespace")
    return "\n".join(lines)
