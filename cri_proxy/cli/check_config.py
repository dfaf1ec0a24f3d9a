"""``cri-proxy check-config``: check a file as a start would, diff with daemon or defaults, ask it what would move."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cri_proxy.cli.admin import add_admin_option, fetch
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.cli.layers.report import ConfigReport, OptionChange, resolve
from cri_proxy.cli.output import emit
from cri_proxy.cli.render.explain import pinning_change_text
from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.config.last_known_good import find_known_good
from cri_proxy.config.load import load_source
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option_groups import HttpTlsOptions
from cri_proxy.config.settings import settings_for
from cri_proxy.config.values import show_value
from cri_proxy.errors import ConfigError, StoreError
from cri_proxy.http.client import DaemonUnreachable, ask
from cri_proxy.node.status.decision_views import PlanView
from cri_proxy.node.status.model import StatusView
from sysfs.cpuset import CpuSet

EXAMPLE = """\
cri-proxy check-config /etc/cri-proxy/cri-proxy.yaml
cri-proxy check-config /etc/cri-proxy/cluster --node-group realtime
cri-proxy check-config --all packaging/kubernetes/configuration.yaml
cri-proxy check-config configs/strict.yaml --machine '{packages: 2, nodes: 2, cores: 16, memory: 64Gi}'"""

WITHOUT_EFFECT: Final = (
    WithoutEffect(
        ("--node-name", "--node-group", "--admin"),
        "with --all, which checks those of all nodes and asks no daemon",
        lambda args: args.all,
    ),
)

UNRESTRICTED = (
    "restrictedAnnotations is not set: the author of any pod may write memory.preserve and other annotations that take "
    "something from other containers; configs/shared-node.yaml restricts them (docs/security.md, How to restrict)"
)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("path", type=Path, metavar="PATH", help="a file, or a mounted ConfigMap directory")
    parser.add_argument(
        "--node-name", default="", help="chooses in a directory (default: the kubelet's name for this node)"
    )
    parser.add_argument("--node-group", default="", help="chooses in a directory")
    machine = "the machine whose CPUs are meant, as in cri-proxy topology (default: where the daemon would look)"
    parser.add_argument("--machine", default="", metavar="SPEC", help=machine)
    every = "check all configurations of a ConfigMap, a manifest or a directory (- is standard input); asks no daemon"
    parser.add_argument("--all", action="store_true", help=every)
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the report; 1 when the configuration or a cost file is not valid, or the daemon would reject it."""
    if args.all:
        from cri_proxy.cli.layers.check import run_all

        return run_all(args)
    report = check(args.path, args.admin, names=(args.node_name, args.node_group), machine=args.machine)
    emit(report, args.output, render_report)
    return 0 if report.is_good else 1


def check(path: Path, admin: Path, *, names: tuple[str, str] = ("", ""), machine: str = "") -> ConfigReport:
    """Load and resolve the configuration as the daemon's start does, and compare it with the daemon's.

    ``names`` are the node's and its group's. Without a daemon it is compared with the defaults. The CPUs are those
    of ``machine``, else of the file's ``sysfsRoot``, else of the running daemon's.
    """
    from cri_proxy.http.routes import config_json
    from cri_proxy.kubelet.distribution_files import kubelet_node_name

    place = ConfigLocation(path, names[0] or kubelet_node_name(), names[1])
    source = place.read(may_wait=True)
    try:
        loaded = load_source(place, source)
        settings_for(loaded.config, config_path=loaded.path)
    except ConfigError as error:
        found = ConfigReport(file=error.path, valid=False, error=error.problem, line=error.line, key=error.key)
        return with_instead(found, place.path, admin)
    running = _answer(admin, "/api/v1/config")
    against = "defaults" if running is None else "daemon"
    old = config_json(Config()) if running is None else running
    changes = compare(old, config_json(loaded.config), loaded.given)
    report = ConfigReport(file=str(loaded.path), warnings=loaded.warnings, against=against, changes=changes)
    report = replace(report, hints=hints(loaded.config))
    # The device files of this host do not apply to another machine.
    if not machine or machine == "host":
        report = with_tls_files(with_device_files(report, loaded.config), loaded.config.http_tls)
    if against == "daemon":
        report = without_overridden(report, admin)
    fixed = {change.key for change in report.overridden or ()}
    # The daemon's command line goes before the file.
    is_said = "sysfsRoot" in loaded.given - fixed
    root = loaded.config.sysfs_root if is_said else str(_at(old, ("sysfsRoot",)) or "/")
    report = resolve(report, loaded.config, Path(root), machine)
    if not report.valid and not machine:
        return with_instead(report, place.path, admin)
    if not report.valid:
        return report
    if against == "defaults" or machine:
        why = "no daemon of this node was asked" if against == "defaults" else "they run on another machine than this"
        return replace(report, hints=(*report.hints, *_unknown_requests(report, loaded.config, why)))
    report = with_reserved(report, admin)
    return planned(report, admin, text=source.text, group=place.node_group or source.group)


def hints(config: Config) -> tuple[str, ...]:
    """Return sentences about this configuration that an operator may want to consider."""
    if config.restricted_annotations or not config.annotation_domains or config.policy == "none":
        return ()
    return (UNRESTRICTED,)


def with_device_files(report: ConfigReport, config: Config) -> ConfigReport:
    """Return the report with what the device files of this node list, and what is wrong with them."""
    from cri_proxy.costs.words import listed_text, silent_text
    from cri_proxy.daemon.device_sources import cost_source, inventory_source
    from cri_proxy.in_force.file_state import problems_of

    costs, listed = cost_source(config.costs), inventory_source(config.devices)
    if costs is not None:
        found = costs.read()
        judged = costs.judge(found, {})
        silent = silent_text(judged.content)
        report = replace(
            report,
            warnings=(*report.warnings, *((f"cost files: {silent}",) if silent else ())),
            cost_files=listed_text(found, judged),
            cost_problems=problems_of(found, judged.files),
        )
    if listed is not None:
        found = listed.read()
        problems = problems_of(found, listed.judge(found, {}).files)
        report = replace(report, cost_problems=(*report.cost_problems, *problems))
    return report


def with_tls_files(report: ConfigReport, options: HttpTlsOptions) -> ConfigReport:
    """Return the report with a warning where the files of ``httpTLS`` cannot be used as they are on this node."""
    if not options.certificate:
        return report
    from cri_proxy.http.tls import TlsFiles

    try:
        TlsFiles.named(options.certificate, options.key, options.tokens).load()
    except ValueError as error:
        words = f"httpTLS: {error}; until it can be used, the address of http is not opened"
        return replace(report, warnings=(*report.warnings, words))
    return report


def without_overridden(report: ConfigReport, admin: Path) -> ConfigReport:
    """Return the report with the options that the running daemon's command line sets apart from the changes."""
    said = _answer(admin, "/api/v1/status", "configuration", "overridden")
    if not isinstance(said, list):  # an older daemon
        return report
    overridden = tuple(change for change in report.changes if change.key in said and change.is_in_file)
    changes = tuple(change for change in report.changes if change.key not in said)
    return replace(report, changes=changes, overridden=overridden)


def with_reserved(report: ConfigReport, admin: Path) -> ConfigReport:
    """Return the report with a warning where running containers ask for more than the CPUs that this one reserves."""
    from cri_proxy.node.status.containers import reserved_warning

    try:
        running = fetch(admin, "/api/v1/status", StatusView).containers
    except DaemonUnreachable:  # an older daemon
        return report
    return replace(report, warnings=(*report.warnings, *reserved_warning(running, CpuSet.parse(report.reserved))))


def _unknown_requests(report: ConfigReport, config: Config, why: str) -> tuple[str, ...]:
    """Return the sentence that the reserved CPUs may be too few, as the containers on them are not known."""
    if not report.reserved or config.policy == "none":
        return ()
    has = f"the {1000 * len(CpuSet.parse(report.reserved))}m of the reserved CPUs {report.reserved}"
    return (
        f"the requests of containers in reserved namespaces such as kube-system are not known, as {why}: if they are "
        f"more than {has}, some of them share other CPUs",
    )


def _answer(admin: Path, target: str, *path: str) -> object:
    """Return the running daemon's answer at this path; None where no daemon answers."""
    try:
        return _at(ask(admin, target), path)
    except DaemonUnreachable:
        return None


def with_instead(report: ConfigReport, path: Path, admin: Path) -> ConfigReport:
    """Return the report of an invalid configuration, with the one that a start would use instead.

    That is looked for in the running daemon's state directory, else in the default one.
    """
    directory = str(_answer(admin, "/api/v1/config", "stateDir") or Config().state_dir)
    try:
        kept = find_known_good(Path(directory), path.absolute())
    except StoreError as error:
        return replace(report, warnings=(*report.warnings, f"the last valid configuration cannot be used: {error}"))
    if kept is None:
        return report
    return replace(report, instead=f"{kept.file} as it was in force since {kept.since} (sha256 {kept.digest[:12]})")


def planned(report: ConfigReport, admin: Path, *, text: str, group: str) -> ConfigReport:
    """Return the report with what the running daemon would do, or why that is not known."""
    try:
        plan = fetch(admin, "/api/v1/plan", PlanView, {"group": group}, post=text)
    except DaemonUnreachable as error:
        said = f"the running daemon, perhaps an older one, does not report what it would do with this: {error}"
        return replace(report, warnings=(*report.warnings, said))
    if plan.is_kept:
        said = "the running daemon has started with the last valid configuration, because the file was not valid"
        report = replace(report, warnings=(*report.warnings, said))
    if plan.problem:
        return replace(report, is_planned=True, problem=plan.problem)
    changes = tuple(replace(c, needs_restart=c.key in plan.needs_restart) for c in report.changes)
    return replace(report, is_planned=True, moves=plan.moves, changes=changes)


def compare(old: object, new: object, given: frozenset[str]) -> tuple[OptionChange, ...]:
    """Return the options in which two configurations, as JSON, differ; in the order of the model."""
    pairs = ((known, _at(old, known.path), _at(new, known.path)) for known in known_options())
    return tuple(
        OptionChange(known.key, _show(a), _show(b), known.key in given, not known.option.is_reloadable)
        for known, a, b in pairs
        if a != b
    )


def _at(plain: object, path: tuple[str, ...]) -> object:
    for key in path:
        plain = plain.get(key) if isinstance(plain, dict) else None
    return plain


def _show(value: object) -> str:
    return show_value(tuple(value) if isinstance(value, list) else value)


def render_report(report: ConfigReport) -> str:
    """Return the report for people."""
    warnings = [f"warning: {warning}" for warning in report.warnings]
    if not report.valid:
        where = f" (on the machine {report.machine})" if report.machine and report.key else ""
        problem = ConfigError(report.file, report.line, report.key, report.error)
        start = [f"a start of the daemon would use {report.instead}"] if report.instead else []
        return "\n".join([f"not valid: {problem}{where}", *start, *warnings])
    reserved = f"reserved {report.reserved}" if report.reserved else "none reserved"
    lines = [f"{report.file}: valid", f"CPUs of {report.machine}: available {report.available}, {reserved}"]
    lines += [f"cost files: {report.cost_files}"] if report.cost_files else []
    lines += [f"file of devices not usable: {problem}" for problem in report.cost_problems]
    lines += warnings
    lines += [f"hint: {hint}" for hint in report.hints]
    other = "the running daemon" if report.against == "daemon" else "the defaults (no daemon answers)"
    stays = [(change.key, f"{change.old} stays; the file has {change.new}") for change in report.overridden or ()]
    overridden = _lines("overridden by the command line of the running daemon:", stays)
    if not report.changes:
        return "\n".join([*lines, f"the same as {other}", *overridden])
    set_here = [(change.key, _change(change)) for change in report.changes if change.is_in_file]
    not_here = [(change.key, _change(change)) for change in report.changes if not change.is_in_file]
    lines += _lines(f"against {other}, this changes:", set_here)
    unless = ", unless set on the daemon's command line" if report.overridden is None else ""
    lines += _lines(f"not in the file, hence the default{unless}:", not_here)
    lines += overridden
    return "\n".join([*lines, *_plan_lines(report)])


def _plan_lines(report: ConfigReport) -> list[str]:
    """Return the lines about the changes that the running daemon would make."""
    if not report.is_planned:
        return []
    if report.problem:
        return [f"the running daemon would NOT apply it now: {report.problem}"]
    if not report.moves:
        return ["the running daemon would apply it, and update no container"]
    return ["the running daemon would apply it, and update:", *(f"  {pinning_change_text(m)}" for m in report.moves)]


def _change(change: OptionChange) -> str:
    return f"{change.old} -> {change.new}{'  (needs a restart)' * change.needs_restart}"


def _lines(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return options with their text in columns, below a title; nothing for none."""
    width = max((len(key) for key, _ in rows), default=0)
    return [title, *(f"  {key.ljust(width)}  {text}" for key, text in rows)] if rows else []
