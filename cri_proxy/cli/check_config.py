"""``cri-proxy check-config``: whether a configuration is valid, and what it would change."""

import argparse
from dataclasses import dataclass
from pathlib import Path

HELP = "check a configuration, and show what it would change against the running daemon"
EXAMPLE = """\
cri-proxy check-config /etc/cri-proxy/config.yaml
cri-proxy check-config /etc/cri-proxy/configmap --node-group realtime"""


@dataclass(frozen=True, slots=True)
class Change:
    """An option whose value differs; both values as they are written."""

    key: str
    old: str
    new: str


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
    changes = compare(old, config_json(loaded.config))
    return Report(True, str(loaded.path), warnings=loaded.warnings, against=against, changes=changes)


def compare(old: object, new: object) -> tuple[Change, ...]:
    """The options in which two configurations, as JSON, differ; in the order of the model."""
    from cri_proxy.config.model import known_options

    pairs = ((known.key, _at(old, known.path), _at(new, known.path)) for known in known_options())
    return tuple(Change(key, _show(before), _show(after)) for key, before, after in pairs if before != after)


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
    lines.append(f"against {other}, this changes:")
    width = max(len(change.key) for change in report.changes)
    lines += [f"  {change.key.ljust(width)}  {change.old} -> {change.new}" for change in report.changes]
    if report.against == "daemon":
        lines.append("restart the daemon to apply it; options on its command line win over the file")
    return "\n".join(lines)
