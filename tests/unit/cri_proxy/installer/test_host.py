"""Files of a host as a whole or not at all, releases copied whole, commands inside of it."""

from pathlib import Path

import pytest

from cri_proxy.installer.host import BASE, Content, HostFailed, MountedHost


@pytest.fixture
def host(tmp_path: Path) -> MountedHost:
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "python").write_text("x")
    (tree / "lib").symlink_to("bin")
    (tmp_path / "host").mkdir()
    return MountedHost(tmp_path / "host", tree)


def test_a_file_comes_goes_and_keeps_its_mode(host: MountedHost, tmp_path: Path) -> None:
    assert host.read("/etc/a.d/b") is None
    host.write("/etc/a.d/b", Content("text\n", 0o600))
    assert host.read("/etc/a.d/b") == Content("text\n", 0o600)
    assert [path.name for path in (tmp_path / "host/etc/a.d").iterdir()] == ["b"]
    host.write("/etc/a.d/b", None)
    assert not (tmp_path / "host/etc/a.d").exists() and (tmp_path / "host/etc").exists()
    host.write("/etc/a.d/b", None)


def test_a_link_is_a_link_wherever_it_leads(host: MountedHost) -> None:
    host.write("/opt/current", Content(target="one"))
    host.write("/opt/current", Content(target="/two"))
    assert host.read("/opt/current") == Content(target="/two")


def test_a_directory_that_others_use_stays(host: MountedHost, tmp_path: Path) -> None:
    host.write("/etc/a.d/b", Content("x"))
    (tmp_path / "host/etc/a.d/theirs").touch()
    host.write("/etc/a.d/b", None)
    assert (tmp_path / "host/etc/a.d/theirs").exists()


def test_a_file_that_is_none_is_told(host: MountedHost, tmp_path: Path) -> None:
    (tmp_path / "host/etc/a").mkdir(parents=True)
    with pytest.raises(HostFailed, match="/etc/a: cannot read"):
        host.read("/etc/a")
    with pytest.raises(HostFailed, match="/etc/a: cannot write"):
        host.write("/etc/a", Content("x"))


def test_a_release_is_there_whole_or_not_at_all(host: MountedHost, tmp_path: Path) -> None:
    place = tmp_path / f"host{BASE}"
    (place / ".one.new" / "half").mkdir(parents=True)  # a kill left it
    assert not host.has_release("one")
    host.add_release("one")
    assert host.has_release("one")
    assert (place / "one/lib/python").read_text() == "x" and (place / "one/lib").is_symlink()
    assert [path.name for path in place.iterdir()] == ["one"]
    host.remove_release("one")
    host.remove_release("one")
    assert not host.has_release("one")


def test_a_release_that_cannot_be_copied_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostFailed, match="cannot copy the release"):
        MountedHost(tmp_path, tmp_path / "missing").add_release("one")


def test_a_command_that_fails_is_told_with_its_last_words() -> None:
    here = MountedHost(Path("/"), Path("/"))
    here.run(["true"])
    with pytest.raises(HostFailed, match="sh -c echo no; exit 3: exit status 3: no"):
        here.run(["sh", "-c", "echo no; exit 3"])
    with pytest.raises(HostFailed, match="No such file"):
        here.run(["/missing-program"])
