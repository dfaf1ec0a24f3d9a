"""The journal on a disk: what was written is what is read, and what cannot be read is told."""

import threading
from pathlib import Path

import pytest

from cri_proxy.installer.host import Content, HostFailed
from cri_proxy.installer.journal import DIRECTORY, Action, InstallJournal, InstallPhase, JournalFile, KubeletEdit

ACTIONS = (
    Action("copy", release="one"),
    Action("write", path="/a", new=Content("x\n", 0o600), old=Content(target="b"), edit=KubeletEdit("k", "v", None)),
    Action("run", do=(("a", "b"),), undo=(("c",), ("d", "e")), is_guard=True),
    Action("wait", until="node"),
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = JournalFile(tmp_path)
    assert file.load() is None
    journal = InstallJournal("one", ACTIONS, InstallPhase.BACK, 2, "why", ACTIONS[:1], "zero", is_reported=True)
    with file.locked():
        file.save(journal)
    assert JournalFile(tmp_path).load() == journal
    with file.locked():
        file.save(None)
    assert file.load() is None


def test_only_root_reads_it(tmp_path: Path) -> None:
    file = JournalFile(tmp_path)
    with file.locked():
        file.save(InstallJournal("one", ()))
    place = tmp_path / DIRECTORY[1:]
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / "journal.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{}", '{"release": 1, "actions": []}', "[]"])
def test_one_that_cannot_be_read_is_told_with_its_place(tmp_path: Path, text: str) -> None:
    place = tmp_path / DIRECTORY[1:]
    place.mkdir(parents=True)
    (place / "journal.json").write_text(text)
    with pytest.raises(HostFailed, match=r"journal.json: cannot be read: .*docs/fleet.md"):
        JournalFile(tmp_path).load()


def test_two_processes_never_act_at_the_same_time(tmp_path: Path) -> None:
    order: list[str] = []

    def other() -> None:
        with JournalFile(tmp_path).locked():
            order.append("other")

    with JournalFile(tmp_path).locked():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_the_release_that_runs_is_the_last_one_that_was_done() -> None:
    assert InstallJournal("two", (), InstallPhase.DONE, base_release="two").installed == "two"
    assert InstallJournal("two", (), InstallPhase.FAILED, base_release="one").installed == "one"
    assert InstallJournal("two", (), InstallPhase.FORWARD).installed == ""
