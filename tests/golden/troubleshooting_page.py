"""What the commands of docs/troubleshooting.md print: of its scenario's node, and of one without a daemon."""

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import replace

from cri_proxy.cli.main import run_command
from tests.fakes.made_up_roots import OURS, ROOTS, THEIRS, MadeUpRoot, written
from tests.golden.costs_page import ROOT
from tests.golden.explained import answers

PAGE = ROOT / "docs" / "troubleshooting.md"
SCENARIO = ROOT / "configs" / "troubleshooting" / "node.yaml"
LEFT_OUT = "..."
_BLOCK = re.compile(r"^```console\n\$ cri-proxy (.*)\n((?:.*\n)*?)```", re.MULTILINE)
_ABSENT = "/run/cri-proxy/admin.sock"


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield each command, without the program's name, and what the page shows of its answer."""
    for found in _BLOCK.finditer(page):
        yield found[1], found[2]


def missing(shown: str, printed: str) -> list[str]:
    """The parts of a block, which dots divide, that the answer lacks, or has in another order."""
    lines, absent = f"\n{printed.strip()}\n", []
    for part in re.split(rf"^{re.escape(LEFT_OUT)}\n", shown, flags=re.MULTILINE):
        at = lines.find(f"\n{part}") if part else 0
        if at < 0:
            absent.append(part)
        else:
            lines = lines[at + len(part) :]
    return absent


def printed(command: str) -> list[str]:
    """What a command prints: of the scenario's node and, where it is asked without a daemon, of that one."""
    if command == "doctor":
        return [_doctor()]
    found = [answers(SCENARIO.read_text(), [command])[0]]
    return [*found, _without_daemon(command)] if command == "status" else found


def _without_daemon(command: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        run_command([command, "--admin", "unix:///nowhere/admin.sock"])
    return said.getvalue().replace("/nowhere/admin.sock", _ABSENT)


def _stopped() -> MadeUpRoot:
    """A kubeadm node that was set up by our pages, and whose daemon does not run."""
    node = ROOTS["kubeadm"]
    files = {path: text.replace(THEIRS, OURS) for path, text in node.files.items() if "cpu_manager_state" not in path}
    return replace(node, files=files).with_config('cgroupDriver: systemd\nreservedSystemCPUs: "0-1"\n')


def _doctor() -> str:
    shown = io.StringIO()
    with written(_stopped()) as root, contextlib.redirect_stdout(shown):
        run_command(["doctor", "--root", str(root)])
    return shown.getvalue()
