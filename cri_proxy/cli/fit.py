"""``cri-proxy fit``: ask the running daemon where the pods of manifests would land now; exit 1 where one would not."""

import argparse
from typing import TYPE_CHECKING

from cri_proxy.cli.admin import add_admin_option, fetch
from cri_proxy.errors import CommandFailed

if TYPE_CHECKING:  # loaded late
    from cri_proxy.intercept.fit import ContainerFit, FitView

EXAMPLE = """\
cri-proxy fit pod.yaml
helm template my-chart | cri-proxy fit - -o json"""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="manifests, a directory, or - (standard input)")
    parser.add_argument(
        "--namespace", default="default", help="namespace for objects that do not set one (default: default)"
    )
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the answer; return 1 where a container would be refused. Raises CommandFailed and DaemonUnreachable."""
    from cri_proxy.cli.output import emit
    from cri_proxy.intercept.fit import FitView

    body = _question(args, _memory_bytes(args))
    view = fetch(args.admin, "/api/v1/fit", FitView, post=body)
    if view.problem:
        raise CommandFailed(view.problem)
    emit(view, args.output, fit_text)
    return int(any(each.refused for each in view.containers))


def _memory_bytes(args: argparse.Namespace) -> int:
    """Return the memory of the daemon's node, from which a kubelet words the memory that a container requests."""
    from cri_proxy.http.client import DaemonUnreachable, ask

    match ask(args.admin, "/api/v1/topology"):
        case {"nodes": [*nodes]}:
            return sum(int(node["memory_bytes"]) for node in nodes)
    raise DaemonUnreachable(str(args.admin), "answered something else: is it another version?")


def _question(args: argparse.Namespace, memory_bytes: int) -> str:
    from cri_proxy.cli.manifests import texts_of
    from cri_proxy.simulate.plan.fit_request import creates_of, question_of

    texts: list[tuple[str, str]] = []
    for name, text in texts_of(args.files):
        if not isinstance(text, str):
            raise text
        texts.append((name, text))
    return question_of(creates_of(texts, args.namespace, memory_bytes))


def fit_text(view: "FitView") -> str:
    """Return the answer in lines: each container, who moves for it, and how many would not fit."""
    from cri_proxy.cli.render.columns import paragraph, terminal_width
    from sysfs.text import plural

    width = terminal_width()
    lines: list[str] = []
    for text in (text for each in view.containers for text in _lines(each)):
        inside = len(text) - len(text.lstrip()) + 4
        lines += paragraph(text, " " * inside, first="", width=width)
    refused = sum(bool(each.refused) for each in view.containers)
    fits = f"{len(view.containers) - refused} of {plural(len(view.containers), 'container')} would be placed"
    return "\n".join([*lines, f"{fits}; nothing was changed"])


def _lines(each: "ContainerFit") -> list[str]:
    from sysfs.text import plural

    lines = [f"{each.container}: annotation without effect: {problem}" for problem in each.problems]
    if each.refused:
        return [*lines, f"{each.container}: would be refused: {each.refused}"]
    own = f", {each.own_cpus} its own" if each.own_cpus and each.own_cpus != each.cpus else ""
    memory = f", memory nodes {each.mems}" if each.mems else ""
    devices = f", devices {', '.join(each.devices)}" if each.devices else ""
    lines.append(f"{each.container}: {each.kind}, CPUs {each.cpus or 'not pinned'}{own}{memory}, {each.pool}{devices}")
    lines += [f"    {reason}" for reason in each.reasons]
    for move in each.moves:
        lines.append(f"    moves {move.container}: CPUs {move.cpus_before or 'any'} -> {move.cpus or 'any'}")
    if each.narrowed:
        lines.append(f"    narrows the shared CPUs of {plural(each.narrowed, 'container')}")
    return lines
