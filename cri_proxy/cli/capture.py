"""``cri-proxy capture``: archive the files that discovery reads as .tar.xz, load the archive back, report counts."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.cli.admin import add_admin_option
from cri_proxy.cli.arguments import ROOT, add_path
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.errors import CommandFailed

EXAMPLE = """\
cri-proxy capture machine.tar.xz
cri-proxy topology --machine machine.tar.xz
cri-proxy capture --state node-7.tar.xz"""

WITHOUT_EFFECT: Final = (WithoutEffect(("--admin",), "without --state", lambda args: not args.state),)


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """The result of a capture.

    ``unreadable`` are files that gave an error when read, each after its name (``EIO sys/...``). ``problem`` is why
    discovery fails on what was captured, '' when it does not.
    """

    file: str
    bytes: int
    files: int
    links: int
    unreadable: tuple[str, ...]
    problem: str


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("file", type=Path, metavar="FILE.tar.xz", help="the archive to write")
    add_path(parser, "--sysfs-root", "DIR", "directory that holds sys/ and proc/ (default /)", default=ROOT)
    parser.add_argument(
        "--state",
        action="store_true",
        help="add what the running daemon has placed, with the names of pods, to plan with",
    )
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Write the archive and check that it reads back. Raises CommandFailed when it cannot be written."""
    from cri_proxy.cli.output import complain, emit
    from sysfs.archives.capture import capture
    from sysfs.errors import SysfsBaseError
    from sysfs.sources import load_machine

    if not args.file.name.endswith(".tar.xz"):
        raise CommandFailed(f"{args.file}: give a name that ends in .tar.xz", 2)
    if not (args.sysfs_root / "sys" / "devices").is_dir():
        raise CommandFailed(f"{args.sysfs_root}: no sys/devices in it; see --sysfs-root")
    more = _state(args.admin) if args.state else {}
    try:
        done = capture(args.file, args.sysfs_root, more)
    except OSError as error:
        raise CommandFailed(f"{args.file}: {error.strerror or error}") from error
    problem = ""
    try:
        load_machine(str(args.file))
    except SysfsBaseError as error:
        problem = str(error)
        complain(f"discovery fails on this machine, which is worth a bug report: {problem}")
    size_bytes = args.file.stat().st_size
    report = CaptureReport(str(args.file), size_bytes, done.files, done.links, done.unreadable, problem)
    emit(report, args.output, render_report)
    return 0


def _state(admin: Path) -> dict[str, bytes]:
    """Return the member of the archive with the state of the running daemon. Raises DaemonUnreachable."""
    import json

    from cri_proxy.http.client import ask
    from cri_proxy.state.capture import STATE

    return {STATE: json.dumps(ask(admin, "/api/v1/state", post="")).encode()}


def render_report(report: CaptureReport) -> str:
    """Return the report for people."""
    unreadable = f"{len(report.unreadable)} that could not be read"
    return f"{report.file}: {report.bytes} bytes, {report.files} files and {report.links} links, {unreadable}"
