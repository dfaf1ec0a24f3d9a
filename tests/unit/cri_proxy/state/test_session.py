import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cri_proxy.errors import StoreError, StoreUnavailable
from cri_proxy.state import tables
from cri_proxy.state.session import LocalSession, Written
from tests.fakes.rows import make_row

PUT = tables.change([make_row()], ())


def test_a_session_that_is_not_open_is_opened_by_the_first_write(tmp_path: Path) -> None:
    session = LocalSession(tmp_path / "state.db")
    with pytest.raises(StoreUnavailable, match="not open"):
        session.read()
    assert session.write(PUT) == Written()
    assert session.read().rows == (make_row(),)
    session.close()
    session.close()


def test_a_value_that_cannot_be_saved_is_told_from_a_disk_that_fails(tmp_path: Path) -> None:
    session = LocalSession(tmp_path / "state.db")
    session.open(0.01)
    assert session.write(tables.change([make_row(order=1 << 70)], ())).is_value
    session.close()


def test_a_session_attaches_to_what_another_one_has_opened_and_otherwise_the_first_write_opens_it(
    tmp_path: Path,
) -> None:
    opening, session = LocalSession(tmp_path / "state.db"), LocalSession(tmp_path / "state.db")
    opening.open(0.01)
    opening.write(PUT)
    opening.close()
    session.attach()
    assert session.read().rows == (make_row(),)
    session.close()
    elsewhere = LocalSession(tmp_path / "missing" / "state.db")
    elsewhere.attach()
    assert elsewhere.write(PUT) == Written()
    elsewhere.close()


# A session in a helper: by a process that may fork, because it has one thread.
BEGIN = """
import os, signal, sys
from pathlib import Path
from cri_proxy.errors import StoreError
from cri_proxy.helper_process import Launcher
from cri_proxy.state import tables
from cri_proxy.state.session import RemoteSession, Written
from tests.fakes.rows import make_row

path, put = Path(sys.argv[1]), tables.change([make_row()], ())
session = RemoteSession(path, Launcher.fork())
"""
SESSIONS = {
    "what is written is read again": """
assert session.open(1.0).recovered is None
assert session.write(put) == Written()
assert session.read().rows == (make_row(),)
session.close()
session.close()
assert session.open(1.0).saved.rows == (make_row(),)
""",
    "a helper that is killed costs one save, and the next one opens the file again": """
session.open(1.0)
os.kill(session._helper.call(os.getpid), signal.SIGKILL)
assert "helper process" in session.write(put).problem
assert session.write(put) == Written()
os.kill(session._helper.call(os.getpid), signal.SIGKILL)
session.close()
""",
    "a refusal that only a person can mend reaches the caller": """
path.symlink_to("/nosuch")
try:
    session.open(1.0)
except StoreError as error:
    assert "symbolic link" in str(error)
else:
    raise AssertionError
""",
}


def in_a_process(code: str, arguments: Sequence[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("story", SESSIONS)
def test_a_session_in_a_helper(story: str) -> None:
    with TemporaryDirectory() as directory:
        in_a_process(BEGIN + SESSIONS[story], (f"{directory}/state/state.db".replace("/state/", "/"),))


def test_the_errors_of_a_store_survive_the_way_from_a_helper() -> None:
    import pickle

    found = pickle.loads(pickle.dumps(StoreUnavailable("state.db", "it is full")))
    assert isinstance(found, StoreError)
    assert str(found) == str(StoreUnavailable("state.db", "it is full"))
