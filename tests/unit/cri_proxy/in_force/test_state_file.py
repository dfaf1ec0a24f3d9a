import json
from pathlib import Path

import pytest

from cri_proxy.errors import StoreError
from cri_proxy.in_force.state_file import DocumentForm, save

FORM = DocumentForm(version=3, most_bytes=60)


def test_a_saved_document_is_found_with_its_version_and_keys(tmp_path: Path) -> None:
    file = tmp_path / "state" / "kept.json"
    save(file, FORM.encode(boot="é"))
    found = FORM.find(file)
    assert found is not None
    assert FORM.parse(found, "kept.json") == {"version": 3, "boot": "é"}
    assert file.stat().st_mode & 0o777 == 0o600


def test_where_there_is_no_file_none_is_found_and_none_is_made(tmp_path: Path) -> None:
    assert FORM.find(tmp_path / "kept.json") is None
    assert list(tmp_path.iterdir()) == []


def test_a_longer_document_is_not_read_to_its_end_and_refused(tmp_path: Path) -> None:
    save(tmp_path / "kept.json", b" " * 200)
    found = FORM.find(tmp_path / "kept.json")
    assert found is not None
    assert len(found) == 61
    with pytest.raises(StoreError, match=r"larger than 60 bytes: cri-proxy did not write it; remove it$"):
        FORM.parse(found, "kept.json")


@pytest.mark.parametrize("text", ["[]", "{}", json.dumps({"version": 2})])
def test_what_another_version_wrote_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match=r"kept\.json: not as this version of cri-proxy writes it; remove it$"):
        FORM.parse(text.encode(), "kept.json")


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 50])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(StoreError, match=r"kept\.json: not JSON: .*; remove it$"):
        FORM.parse(raw, "kept.json")


def test_a_file_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    save(tmp_path / "kept.json", FORM.encode())
    (tmp_path / "kept.json").chmod(0o666)
    with pytest.raises(StoreError, match="chmod go-w"):
        FORM.find(tmp_path / "kept.json")


def test_a_file_that_cannot_be_replaced_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "kept.json" / "in-the-way").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"kept\.json: cannot write: .*; check the disk$"):
        save(tmp_path / "kept.json", FORM.encode())
