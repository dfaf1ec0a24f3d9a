import stat
from pathlib import Path

import pytest

from cri_proxy.feature_file import FeatureFileError, feature_text, write_feature_file

TEXT = feature_text({"a.io/b": "1", "a.io/c": "x2"}, "Why.")


def test_a_file_is_a_comment_and_a_line_for_each_label() -> None:
    assert TEXT == "# Why.\na.io/b=1\na.io/c=x2\n"


def test_it_is_written_for_all_to_read_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    assert write_feature_file(tmp_path / "links", TEXT)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("links", TEXT)]
    assert stat.S_IMODE((tmp_path / "links").stat().st_mode) == 0o644


def test_the_same_text_is_not_written_again(tmp_path: Path) -> None:
    """nfd-worker looks again at each change of the directory."""
    write_feature_file(tmp_path / "links", TEXT)
    before = (tmp_path / "links").stat()
    assert not write_feature_file(tmp_path / "links", TEXT)
    assert (tmp_path / "links").stat().st_ino == before.st_ino
    assert write_feature_file(tmp_path / "links", "# Other.\n")


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("precious")
    (tmp_path / "links").symlink_to("other")
    assert write_feature_file(tmp_path / "links", TEXT)
    assert (tmp_path / "other").read_text() == "precious"
    assert not (tmp_path / "links").is_symlink()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("absent/links", TEXT, "cannot be written: No such file or directory; is .*absent a directory"),
        ("directory", TEXT, "is a directory; name a file in it"),
        ("file/links", TEXT, "cannot be written: Not a directory; is .*file a directory"),
        (".links", TEXT, "a name without a dot in front; name one"),
        ("links", "#" * 65_537, "65537 bytes; nfd-worker reads at most 65536"),
    ],
)
def test_what_cannot_be_written_is_an_error_with_its_path(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()
    with pytest.raises(FeatureFileError, match=rf"{name}: .*{problem}"):
        write_feature_file(tmp_path / name, text)
