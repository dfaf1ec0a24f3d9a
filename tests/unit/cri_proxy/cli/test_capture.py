import asyncio
import json
import re
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest

from cri_proxy.cli.capture import CaptureReport
from cri_proxy.cli.main import run_command
from cri_proxy.http.messages import HttpRequest
from cri_proxy.http.routes import body_route
from cri_proxy.http.server import AdminServer
from cri_proxy.simulate.capture import read_captured
from cri_proxy.state.rows import Saved
from sysfs.sources import load_machine
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import CPU, write_tree


def run(*words: object) -> int:
    return run_command(["capture", *map(str, words)])


def test_a_capture_is_a_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_tree(tmp_path / "tree", small_machine())
    assert run(tmp_path / "m.tar.xz", "--sysfs-root", root) == 0
    assert load_machine(f"{tmp_path}/m.tar.xz") == small_machine()
    assert "m.tar.xz: " in capsys.readouterr().out


def test_a_machine_that_cannot_be_read_is_captured_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_tree(tmp_path / "tree", small_machine(), {f"{CPU}/online": "0-"})
    assert run(tmp_path / "m.tar.xz", "--sysfs-root", root) == 0
    assert "worth a bug report: sys/devices/system/cpu/online" in capsys.readouterr().err


def test_what_was_written_can_be_had_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_tree(tmp_path / "tree", small_machine(), {f"{CPU}/online": "0-"})
    file = tmp_path / "m.tar.xz"
    assert run(file, "--sysfs-root", root, "-o", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["file"], report["bytes"], report["unreadable"]) == (str(file), file.stat().st_size, [])
    assert report["files"] > 10
    assert report["problem"].startswith("sys/devices/system/cpu/online: expected")


@pytest.mark.parametrize(
    ("file", "root", "status"), [("m.zip", "/", 2), ("none/m.tar.xz", "/", 1), ("m.tar.xz", "/proc", 1)]
)
def test_what_cannot_be_done_is_said_and_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, root: str, status: int
) -> None:
    assert run(tmp_path / file, "--sysfs-root", root) == status
    assert capsys.readouterr().err.startswith("cri-proxy capture: ")
    assert list(tmp_path.iterdir()) == []


def test_the_reference_documents_every_key_of_the_answer() -> None:
    page = Path(__file__).parents[4] / "docs" / "reference" / "capture.md"
    cells = re.findall(r"^\| (`.*?`) \|", page.read_text(), re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(cells)) == [f.name for f in fields(CaptureReport)]


async def test_the_state_of_the_daemon_is_added_where_that_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_tree(tmp_path / "tree", small_machine())

    async def state(request: HttpRequest) -> object:
        return {"options": {"policy": "none"}, "rows": [], "sandboxes": []}

    server = AdminServer({}, posts={"/api/v1/state": body_route(state)})
    await server.listen_unix(tmp_path / "admin.sock")
    words = (tmp_path / "m.tar.xz", "--sysfs-root", root, "--state", "--admin", f"unix://{tmp_path}/admin.sock")
    assert await asyncio.get_running_loop().run_in_executor(None, partial(run, *words)) == 0
    await server.close()
    found = read_captured(tmp_path / "m.tar.xz")
    assert (found.machine, found.options, found.saved) == (small_machine(), {"policy": "none"}, Saved())
    assert run(*words) == 1
    assert "is the daemon running?" in capsys.readouterr().err
