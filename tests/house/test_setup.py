"""What the setup scripts do where something fails once, as a download does."""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.house.tree import ROOT

SETUP = ROOT / "packaging" / "setup"
# Nobody waits here: how long it would have slept is told instead.
SOURCED = f'. {shlex.quote(str(SETUP / "apt.sh"))}\nsleep() {{ echo "pause $1"; }}\n'


def persistently(script: str, *, failures: int, counter: Path) -> tuple[int, str]:
    """Exit status and output of a script that persistently runs ``work``, which fails so many times at first."""
    work = f'work() {{ echo "work $*"; echo >>{counter}; [ "$(wc -l <{counter})" -gt {failures} ]; }}\n'
    done = subprocess.run(["sh", "-euc", SOURCED + work + script], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_what_succeeds_is_done_once(tmp_path: Path) -> None:
    assert persistently("persistently work a b", failures=0, counter=tmp_path / "n") == (0, "work a b\n")


def test_what_fails_once_is_done_again_after_a_pause(tmp_path: Path) -> None:
    again = ":: failed, once more in 5 seconds: work x\npause 5\n"
    said = f"work x\n{again}work x\ngoing on\n"
    assert persistently("persistently work x; echo going on", failures=1, counter=tmp_path / "n") == (0, said)


def test_what_fails_three_times_fails(tmp_path: Path) -> None:
    status, said = persistently("persistently work; echo going on", failures=3, counter=tmp_path / "n")
    assert (status, said.count("pause"), "going on" in said) == (1, 2, False)


@pytest.mark.parametrize("failures", [1, 3])
def test_packages_are_installed_by_an_apt_that_fails_once_and_not_by_one_that_always_fails(
    tmp_path: Path, failures: int
) -> None:
    ours = "can_apt() { :; }\napt() { work; }\napt_install one two; echo installed\n"
    status, said = persistently(ours, failures=failures, counter=tmp_path / "n")
    assert (status, said.endswith("installed\n")) == ((0, True) if failures < 3 else (1, False))


@pytest.mark.parametrize("script", ["apt.sh", "system.sh", "venv.sh"])
def test_scripts_of_the_setup_are_shell(script: str) -> None:
    subprocess.run(["sh", "-n", SETUP / script], check=True)
