"""``cri-proxy check-config``: whether a configuration is valid, and what it would change."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HELP = "check a configuration, and show what it would change against the running daemon"
EXAMPLE = """\
cri-proxy check-config /etc/cri-proxy/config.yaml
cri-proxy check-config /etc/cri-proxy/configmap --node-group realtime"""


@dataclass(frozen=True, slots=True)
class Change:
    """An option whose value differs; both values as they are written.

    Where the file does not set it, ``new`` is the default, which the daemon's command line may still override.
    """

    key: str
    old: str
    new: str
    is_in_file: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """What is printed. ``file`` is the one that applied; ``against`` is ``defaults`` or ``daemon``."""

    valid: bool
    file: str
    error: str = ""
    line: int = 0
    key: str = ""
    warnings: tuple[str, ...] = ()
    against: str = "defaults"
    changes: tuple[Change, ...] = ()


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    parser.add_argument("path", type=Path, metavar="PATH", help="a file, or a mounted ConfigMap directory")
    parser.add_argument("--node-name", default="", help="chooses in a directory (default: this host's name)")
    parser.add_argument("--node-group", default="", help="chooses in a directory")
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the report; 1 when the configuration is not valid."""
    from cri_proxy.cli.output import emit

    report = check(args.path, args.admin, node_name=args.node_name, node_group=args.node_group)
    emit(report, args.output, render_report(report))
    return 0 if report.valid else 1


def check(path: Path, admin: Path, *, node_name: str = "", node_group: str = "") -> Report:
    """Load and settle the configuration; compare it with the daemon's if one answers, else with the defaults."""
    from cri_proxy.config.load import load_config
    from cri_proxy.config.model import Config
    from cri_proxy.config.settings import host_node_name, settle
    from cri_proxy.errors import ConfigError
    from cri_proxy.http.client import DaemonUnreachable, ask
    from cri_proxy.http.routes import config_json

    try:
        loaded = load_config(path, node_name=node_name or host_node_name(), node_group=node_group)
        settle(loaded.config, config_path=loaded.path)
    except ConfigError as error:
        return Report(False, error.path, error.problem, error.line, error.key)
    against = "daemon"
    try:
        old = ask(admin, "/api/v1/config")
    except DaemonUnreachable:
        against, old = "defaults", config_json(Config())
    changes = compare(old, config_json(loaded.config), loaded.given)
    return Report(True, str(loaded.path), warnings=loaded.warnings, against=against, changes=changes)


def compare(old: object, new: object, given: frozenset[str]) -> tuple[Change, ...]:
    """The options in which two configurations, as JSON, differ; in the order of the model."""
    from cri_proxy.config.model import known_options

    pairs = ((known.key, _at(old, known.path), _at(new, known.path)) for known in known_options())
    return tuple(Change(key, _show(a), _show(b), key in given) for key, a, b in pairs if a != b)


def _at(plain: object, path: tuple[str, ...]) -> object:
    for key in path:
        plain = plain.get(key) if isinstance(plain, dict) else None
    return plain


def _show(value: object) -> str:
    from cri_proxy.config.values import show_value

    return show_value(tuple(value) if isinstance(value, list) else value)


def render_report(report: Report) -> str:
    """The report for people."""
    from cri_proxy.errors import ConfigError

    if not report.valid:
        return f"not valid: {ConfigError(report.file, report.line, report.key, report.error)}"
    lines = [f"{report.file}: valid", *(f"warning: {warning}" for warning in report.warnings)]
    other = "the running daemon" if report.against == "daemon" else "the defaults (no daemon answers)"
    if not report.changes:
        return "\n".join([*lines, f"the same as {other}"])
    set_here = [change for change in report.changes if change.is_in_file]
    not_here = [change for change in report.changes if not change.is_in_file]
    lines += _change_lines(f"against {other}, this changes:", set_here)
    lines += _change_lines("not in the file, hence the default, unless the daemon's command line says so:", not_here)
    if report.against == "daemon":
        lines.append("the daemon reads its configuration when it starts: restart it to apply this")
    return "\n".join(lines)


def _change_lines(title: str, changes: Sequence[Change]) -> list[str]:
    width = max((len(change.key) for change in changes), default=0)
    rows = [f"  {change.key.ljust(width)}  {change.old} -> {change.new}" for change in changes]
    return [title, *rows] if rows else []
