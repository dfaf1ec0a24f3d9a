from collections.abc import Mapping
from pathlib import Path

import pytest

from cri_proxy.errors import StoreError
from cri_proxy.in_force.state_file import StateFile


def written(value: str) -> Mapping[str, object]:
    return {"boot": value}


def read(document: Mapping[str, object]) -> str:
    if not isinstance(document.get("boot"), str):
        raise ValueError("boot: expected a text")
    return str(document["boot"])


FILE = StateFile("kept.json", 60, written, read, version=3)


def test_a_saved_document_is_found_again(tmp_path: Path) -> None:
    FILE.save(tmp_path / "state", "é")
    assert FILE.find(tmp_path / "state") == "é"
    assert (tmp_path / "state" / "kept.json").stat().st_mode & 0o777 == 0o600


def test_where_there_is_no_file_none_is_found_and_none_is_made(tmp_path: Path) -> None:
    assert FILE.find(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_an_equal_one_is_not_written_again(tmp_path: Path) -> None:
    FILE.save(tmp_path, "a")
    inode = (tmp_path / "kept.json").stat().st_ino
    FILE.save(tmp_path, "a")
    assert (tmp_path / "kept.json").stat().st_ino == inode


def test_one_that_cannot_be_used_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text("{")
    (tmp_path / "kept.json").chmod(0o600)
    FILE.save(tmp_path, "a")
    assert FILE.find(tmp_path) == "a"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[" * 50, "not JSON"),
        ("[]", "not as this version"),
        ('{"version": 2, "boot": "a"}', "not as this version"),
        ('{"version": 3}', "boot: expected a text"),
        (" " * 61, "larger than 60 bytes"),
    ],
)
def test_what_cri_proxy_does_not_write_is_refused_with_the_remedy(text: str, problem: str) -> None:
    with pytest.raises(StoreError, match=f"/s: {problem}.*remove it"):
        FILE.decode(text.encode(), "/s")


def test_one_that_others_may_write_is_refused(tmp_path: Path) -> None:
    FILE.save(tmp_path, "a")
    (tmp_path / "kept.json").chmod(0o666)
    with pytest.raises(StoreError, match="chmod go-w"):
        FILE.find(tmp_path)


def test_a_state_directory_that_others_may_write_to_is_not_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StoreError, match="chmod go-w"):
        FILE.save(tmp_path, "a")
