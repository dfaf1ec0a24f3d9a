import os
from pathlib import Path

import pytest

from cri_proxy.extender.directory import FileWord, LinkDirectory
from tests.fakes.secret_files import MARK, SECRETS

CONFIGS = Path(__file__).parents[4] / "configs" / "links"
SERVER = (CONFIGS / "server.txt").read_text()
SERVER_WORD = "v1.0t3.n0x2n1x2.v12sx4v12"


def test_a_file_has_the_word_or_a_matrix_in_any_form(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"{SERVER_WORD}\n")
    (tmp_path / "b").write_text(SERVER)
    (tmp_path / "c.example").write_text("nvlink: [[X, 2], [2, X]]")
    assert LinkDirectory(tmp_path).words(["a", "b", "c.example", "d"]) == {
        "a": FileWord(SERVER_WORD),
        "b": FileWord(SERVER_WORD),
        "c.example": FileWord("v1.0t1.ux2.v2"),
    }


def test_a_changed_file_is_read_again_and_an_absent_one_forgotten(tmp_path: Path) -> None:
    directory = LinkDirectory(tmp_path)
    (tmp_path / "a").write_text("v1.none")
    assert directory.words(["a"]) == {"a": FileWord("v1.none")}
    (tmp_path / "new").write_text("v1.0.u")
    (tmp_path / "new").rename(tmp_path / "a")
    assert directory.words(["a"]) == {"a": FileWord("v1.0.u")}
    (tmp_path / "a").unlink()
    assert directory.words(["a"]) == {}


def test_the_links_of_a_mounted_configmap_are_followed(tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "a").write_text(SERVER_WORD)
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "a").symlink_to("..data/a")
    assert LinkDirectory(tmp_path).words(["a"]) == {"a": FileWord(SERVER_WORD)}


@pytest.mark.parametrize("name", ["..", ".", "../a", "a/b", "", "..data", "/etc/hostname", "A"])
def test_a_name_that_is_none_of_a_node_leads_to_no_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "a").write_text("v1.none")
    assert LinkDirectory(tmp_path / "inside").words([name]) == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("GPU0 GPU1\nGPU0 X NV2\n", "GPU1: the matrix has a column and no row"),
        ("pcie: [[X]]\n---\npcie: [[X]]\n", "another document begins here: a file of links holds one"),
        ("", "expected a matrix of links, got an empty document"),
        ("x" * (1 << 21), "larger than 1048576 bytes"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_file(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "a").write_text(text)
    found = LinkDirectory(tmp_path).words(["a"])["a"]
    assert found.word == ""
    assert found.problem.startswith(f"{tmp_path}/a:")
    assert problem in found.problem


@pytest.mark.parametrize("target", ["../secret", "/{}/secret", "../links/../secret"])
def test_a_link_out_of_the_directory_is_not_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "secret").write_text(SERVER_WORD)
    (tmp_path / "links" / "a").symlink_to(target.format(tmp_path))
    problem = f"{tmp_path}/links/a: is a link that leads out of its directory: put the file itself there"
    assert LinkDirectory(tmp_path / "links").words(["a"]) == {"a": FileWord(problem=problem)}


@pytest.mark.parametrize("name", SECRETS)
def test_of_a_file_without_links_nothing_is_repeated(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").write_text(SECRETS[name])
    found = LinkDirectory(tmp_path).words(["a"])["a"]
    assert found.problem.startswith(f"{tmp_path}/a:")
    assert MARK not in found.problem


def test_a_directory_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    directory = LinkDirectory(tmp_path / "links")
    assert directory.words(["a"]) == {}
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "a").write_text("v1.none")
    assert directory.words(["a"]) == {"a": FileWord("v1.none")}


def test_a_directory_that_cannot_be_opened_is_a_problem_of_each_node(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    problem = f"{tmp_path}/loop: cannot be read: Too many levels of symbolic links"
    assert LinkDirectory(tmp_path / "loop").words(["a", "A"]) == {"a": FileWord(problem=problem)}


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    assert LinkDirectory(tmp_path).words(["a"]) == {
        "a": FileWord(problem=f"{tmp_path}/a: is not a regular file: put one there, or remove it")
    }


def test_a_file_that_is_spoilt_keeps_its_last_good_word_until_it_is_removed(tmp_path: Path) -> None:
    directory = LinkDirectory(tmp_path)
    (tmp_path / "a").write_text(SERVER_WORD)
    directory.words(["a"])
    (tmp_path / "a").write_text("GPU0 GPU1\nGPU0 X NV2\n")
    found = directory.words(["a"])["a"]
    assert (found.word, "GPU1: the matrix" in found.problem) == (SERVER_WORD, True)
    assert directory.kept(["a", "b"]) == {"a": FileWord(SERVER_WORD)}
    (tmp_path / "a").unlink()
    assert (directory.words(["a"]), directory.kept(["a"])) == ({}, {})
