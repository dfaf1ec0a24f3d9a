"""The completion scripts in the shells that they are for; bash is asked in the unit tests."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from cri_proxy.cli.help.scripts import script
from tests.fakes.waiting import holds

NAMES = "web\nweb/main\n"


def needed(shell: str) -> str:
    """The path of the shell."""
    found = shutil.which(shell)
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"not installed: {shell}")
    return str(found)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a ``cri-proxy`` that knows the names of two containers."""
    (tmp_path / "names").write_text(NAMES)
    program = tmp_path / "cri-proxy"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/names\n")
    program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("cri-proxy stat", ["status"]),
        ("cri-proxy gpu sc", ["score"]),
        ("cri-proxy status --ki", ["--kind"]),
        ("cri-proxy status --kind ex", ["exclusive"]),
        ("cri-proxy explain web/", ["web/main"]),
        ("cri-proxy simulate nam", ["names"]),
    ],
)
def test_fish_completes(place: Path, line: str, offered: list[str]) -> None:
    (place / "script").write_text(script("fish"))
    environment = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "HOME": str(place)}
    code = f'source ./script; complete -C "{line}"'
    done = subprocess.run(
        [needed("fish"), "-c", code], cwd=place, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert [found.partition("\t")[0] for found in done.stdout.splitlines()] == offered


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("cri-proxy stat", "cri-proxy status "),
        ("cri-proxy gpu sc", "cri-proxy gpu score "),
        ("cri-proxy status --ki", "cri-proxy status --kind="),
        ("cri-proxy status --kind ex", "cri-proxy status --kind exclusive "),
        ("cri-proxy explain web/", "cri-proxy explain web/main "),
        ("cri-proxy simulate nam", "cri-proxy simulate names "),
    ],
)
async def test_zsh_completes(place: Path, line: str, completed: str) -> None:
    """A widget tells the line after the completion: what is drawn on the terminal is not read."""
    shell = needed("zsh")
    (place / "_cri-proxy").write_text(script("zsh"))
    (place / ".zshrc").write_text(
        f"PATH={place}:$PATH; fpath=({place} $fpath); autoload -Uz compinit; compinit -u -D\n"
        f"tell() {{ zle complete-word; print -r -- $BUFFER >{place}/told; }}; zle -N tell; bindkey '^I' tell\n"
        f"zle-line-init() {{ : >{place}/ready; }}; zle -N zle-line-init\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place)
        os.execve(shell, [shell, "-i"], {**os.environ, "ZDOTDIR": str(place), "TERM": "dumb"})
    try:
        await holds("zsh reads a line", (place / "ready").exists)
        os.write(terminal, f"{line}\t".encode())
        await holds("zsh has completed", lambda: (place / "told").exists() and bool((place / "told").read_text()))
    finally:
        os.close(terminal)
        os.waitpid(child, 0)  # noqa: ASYNC222 # it has no terminal any more
    assert (place / "told").read_text().removesuffix("\n") == completed
