from pathlib import Path

from cri_proxy.in_force.file_state import judge_one, problems_of, texts_in_force
from cri_proxy.in_force.report import FileState, JudgedFile
from cri_proxy.in_force.text_files import FoundFiles, TextFile
from cri_proxy.yaml_fields import DocumentError

ONE = FoundFiles(Path("/d/a.yaml"), (TextFile("a.yaml", "new"),), is_one=True)
KEPT = JudgedFile("a.yaml", FileState.KEPT, "not YAML", 3)


def read(name: str, text: str) -> str:
    if text.startswith("bad"):
        raise DocumentError(name, 2, "bad")
    return text


def test_problems_are_named_by_path_and_line() -> None:
    rejected = JudgedFile("b.yaml", FileState.REJECTED, "empty")
    assert problems_of(FoundFiles(Path("/d")), (KEPT, rejected)) == ("/d/a.yaml:3: not YAML", "/d/b.yaml: empty")
    assert problems_of(ONE, (KEPT,)) == ("/d/a.yaml:3: not YAML",)
    assert problems_of(FoundFiles(Path("/d"), problem="has mode 0777"), ()) == ("/d: has mode 0777",)


def test_the_present_text_counts_or_the_one_that_did_before() -> None:
    good = JudgedFile("a.yaml", FileState.IN_FORCE)
    rejected = JudgedFile("a.yaml", FileState.REJECTED, "empty")
    found = [texts_in_force(ONE, {"a.yaml": "old"}, (file,)) for file in (good, KEPT, rejected)]
    assert found == [{"a.yaml": "new"}, {"a.yaml": "old"}, {}]


def test_one_file_is_judged_by_its_present_content_then_by_its_last_good_one() -> None:
    bad = FoundFiles(Path("/d/a"), (TextFile("a", "bad"),), is_one=True)
    assert judge_one(ONE, {}, read, "").content == "new"
    kept = judge_one(bad, {"a": "old"}, read, "")
    assert (kept.content, kept.files) == ("old", (JudgedFile("a", FileState.KEPT, "bad", 2),))
    rejected = judge_one(bad, {"a": "bad too"}, read, "nothing")
    assert (rejected.content, rejected.files[0].state) == ("nothing", FileState.REJECTED)


def test_a_file_that_cannot_be_read_keeps_its_last_good_content() -> None:
    silent = judge_one(FoundFiles(Path("/d/a"), (), "does not answer"), {"a": "old"}, read, "")
    assert (silent.content, silent.files[0].problem) == ("old", "does not answer")
    assert judge_one(FoundFiles(Path("/d/a")), {}, read, "nothing").files == ()
