"""The files that a kubelet's command line names, in the order in which it merges them."""

import os
from pathlib import Path

from cri_proxy.kubelet.files import ASSUMED, configuration_files, read_file, read_settings
from cri_proxy.kubelet.settings import CPU_POLICY, Word


def put(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def found(root: Path, *words: str, where: str = "") -> list[str]:
    return [file.path for file in configuration_files(root, [Word(word, where) for word in words])]


def test_drop_ins_follow_the_file_by_name_and_only_conf_counts(tmp_path: Path) -> None:
    for name in ("k.yaml", "d/20.conf", "d/10.conf", "d/15/a.conf", "d/30.yaml"):
        put(tmp_path, name)
    assert found(tmp_path, "--config=/k.yaml", "--config-dir=/d") == [
        "/k.yaml",
        "/d",
        "/d/10.conf",
        "/d/15/a.conf",
        "/d/20.conf",
    ]


def test_without_a_flag_no_file_is_read(tmp_path: Path) -> None:
    put(tmp_path, "var/lib/kubelet/config.yaml")
    assert found(tmp_path, "kubelet") == []


def test_a_named_file_that_is_missing_is_unreadable_unless_it_was_only_assumed(tmp_path: Path) -> None:
    (file,) = configuration_files(tmp_path, [Word("--config=/k.yaml", "process 7")])
    assert file.text is None
    (directory,) = configuration_files(tmp_path, [Word("--config-dir=/none", "process 7")])
    assert (directory.path, directory.text) == ("/none", None)
    assert found(tmp_path, "--config=/k.yaml", "--config-dir=/none", where=ASSUMED) == []


def test_a_file_comes_with_its_last_change(tmp_path: Path) -> None:
    put(tmp_path, "k.yaml", "a: b")
    file = read_file(tmp_path, "/k.yaml")
    assert file
    assert (file.text, file.changed_seconds) == ("a: b", (tmp_path / "k.yaml").stat().st_ctime)


def test_what_is_no_file_is_unreadable_and_nothing_waits_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    found = [read_file(tmp_path, path) for path in ("/", "/fifo")]
    assert [file.text if file else "" for file in found] == [None, None]


def test_settings_are_merged_from_the_files_that_the_words_name(tmp_path: Path) -> None:
    put(tmp_path, "k.yaml", "cpuManagerPolicy: none")
    put(tmp_path, "d/10.conf", "cpuManagerPolicy: static")
    settings = read_settings(tmp_path, [Word("--config=/k.yaml", ""), Word("--config-dir=/d", "")])
    assert settings.get(CPU_POLICY).where == "/d/10.conf"
