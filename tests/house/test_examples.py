"""The examples of help run in a clone, and command lines of pages are understood."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cri_proxy.cli.help.commands import ROWS
from cri_proxy.cli.help.parser import command_parser, load_command
from tests.house.tree import ROOT, shown

# A daemon of this node, root, a cluster or a driver is needed: the command lines of these are only understood.
OF_A_NODE = frozenset(
    {"run", "status", "explain", "events", "fit", "reset", "doctor"}
    | {"config-agent", "device-plugin", "extender", "exporter", "installer"}
)
OTHERS = re.compile(
    r"\b(kubectl|nvidia-smi|helm|jq|systemctl)\b|/etc/cri-proxy/|--kubelet\b|--feature-file|--state\b|captured/"
)
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
LINE = re.compile(r"^(?:    |\$ )+(cri-proxy [a-z].*)$", re.MULTILINE)


EXAMPLES = {name: load_command(name).EXAMPLE.splitlines() for name in ROWS}
"""The lines of the help of each command and action."""


def words_of(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of ours in a line of shell, without what the shell takes."""
    for part in re.split(r"\$\(|\)|&&|[|;]|\d?>", re.sub(r"\s+#.*$", "", line)):
        with suppress(ValueError):  # a quotation around several commands
            _, *words = shlex.split(part[part.index("cri-proxy ") :]) if "cri-proxy " in part else [""]
            if words:
                yield words


def not_understood(line: str) -> list[str]:
    """The commands of ours in a line that the parser refuses."""
    wrong = []
    for command, *words in words_of(line):
        name = " ".join([command, *words[:1]])
        name, rest = (name, words[1:]) if name in ROWS else (command, words)
        try:
            command_parser(name, load_command(name)).parse_args(rest)
        except SystemExit as stop:
            wrong += [line] if stop.code else []
    return wrong


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in OF_A_NODE])
def test_the_examples_of_help_run_in_a_clone(name: str, tmp_path: Path) -> None:
    for folder in ("configs", "packaging", "tests"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for line in EXAMPLES[name]:
        if OTHERS.search(line):
            assert not_understood(line) == []
            continue
        command = ["bash", "-o", "pipefail", "-c", line]
        done = subprocess.run(
            command, check=False, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        # 1 without an error is an answer: the merge refuses.
        assert (done.returncode in (0, 1), done.stderr) == (True, ""), line


@pytest.mark.parametrize("name", sorted(OF_A_NODE))
def test_the_examples_of_a_nodes_commands_are_understood(name: str) -> None:
    assert [line for each in EXAMPLES[name] for line in not_understood(each)] == []


@pytest.mark.parametrize("page", [page for page in PAGES if LINE.search(page.read_text())], ids=shown)
def test_command_lines_of_pages_are_understood_and_name_files_that_are_there(page: Path) -> None:
    lines = LINE.findall(page.read_text())
    assert [line for line in lines if not_understood(line)] == []
    files = [word for line in lines for word in line.split() if word.startswith(("configs/", "tests/"))]
    assert [file for file in files if not (ROOT / file).exists()] == []
