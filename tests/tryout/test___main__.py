import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.tryout.__main__ import choose_runtime, is_allowed, main, parser
from tests.tryout.session import EMBEDDED, PRIVATE

BORROWED = "unix:///run/containerd/containerd.sock"


def test_a_containerd_of_our_own_is_tried_where_there_can_be_one() -> None:
    assert choose_runtime("", "") == (PRIVATE, "")


def test_without_root_or_containerd_the_embedded_runtime_stands_in_and_it_is_said() -> None:
    runtime, remark = choose_runtime("", "not root")
    assert runtime == EMBEDDED
    assert "not root" in remark
    assert len(remark.splitlines()) == 1


@pytest.mark.parametrize("wanted", [EMBEDDED, BORROWED])
def test_what_is_asked_for_is_taken(wanted: str) -> None:
    assert choose_runtime(wanted, "not root") == (wanted, "")


def test_only_a_runtime_of_others_needs_leave() -> None:
    assert is_allowed(PRIVATE, yes=False)
    assert is_allowed(EMBEDDED, yes=False)
    assert is_allowed(BORROWED, yes=True)


def test_without_a_terminal_a_runtime_of_others_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runtime", BORROWED]) == 2
    assert "--yes" in capsys.readouterr().err


def test_the_environment_names_the_runtime() -> None:
    assert parser({"RUNTIME": BORROWED}).parse_args([]).runtime == BORROWED


def test_the_command_plays_its_pods_where_there_is_no_containerd() -> None:
    """As a process of its own, on the loop that it chooses itself: a test's loop would hide a wrong one."""
    with tempfile.TemporaryDirectory(prefix="try-", dir="/tmp") as scratch:
        done = subprocess.run(
            [sys.executable, "-m", "tests.tryout", "--runtime", EMBEDDED],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            env={**os.environ, "TMPDIR": scratch},
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert "confirmed by the model." in done.stdout
        assert list(Path(scratch).iterdir()) == []
