from cri_proxy.in_force.report import FilesReport, FileState, JudgedFile


def test_files_are_good_without_a_problem_of_one_or_of_all() -> None:
    assert FilesReport(0.0, (JudgedFile("a.yaml", FileState.IN_FORCE),)).is_good
    assert not FilesReport(0.0, problem="does not answer").is_good
    assert not FilesReport(0.0, (JudgedFile("a.yaml", FileState.KEPT, "not YAML", 3),)).is_good
