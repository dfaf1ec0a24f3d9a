from pathlib import Path

from cri_proxy.in_force.file_state import FileState, JudgedFile, problem_text, texts_in_force
from cri_proxy.in_force.text_files import FoundFiles, TextFile

HERE = FoundFiles(Path("/d"))
ONE = FoundFiles(Path("/d/a.yaml"), (TextFile("a.yaml", "new"),), is_one=True)
KEPT = JudgedFile("a.yaml", FileState.KEPT, "not YAML", 3)


def test_a_problem_is_told_with_file_line_and_what_counts_instead() -> None:
    rejected = JudgedFile("b.yaml", FileState.REJECTED, "empty")
    assert problem_text(HERE, KEPT) == "/d/a.yaml:3: not YAML; its last good content stays in force"
    assert problem_text(HERE, rejected) == "/d/b.yaml: empty; nothing of it is in force"


def test_a_file_with_a_path_of_its_own_is_named_by_it() -> None:
    assert problem_text(ONE, KEPT).startswith("/d/a.yaml:3: ")


def test_the_present_text_counts_or_the_one_that_did_before() -> None:
    good = JudgedFile("a.yaml", FileState.IN_FORCE)
    rejected = JudgedFile("a.yaml", FileState.REJECTED, "empty")
    found = [texts_in_force(ONE, {"a.yaml": "old"}, (file,)) for file in (good, KEPT, rejected)]
    assert found == [{"a.yaml": "new"}, {"a.yaml": "old"}, {}]
