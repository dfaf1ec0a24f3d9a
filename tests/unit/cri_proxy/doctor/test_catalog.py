import re

from cri_proxy.doctor.catalog import Finding, FindingCode, Severity


def test_no_two_rows_have_the_same_meaning() -> None:
    assert len(FindingCode) == len(FindingCode.__members__)


def test_a_code_is_in_kebab_case_and_says_what_it_means() -> None:
    assert [c for c in FindingCode if not re.fullmatch(r"[a-z]+(-[a-z]+)*", str(c)) or len(c.text) < 20] == []


def test_a_finding_has_the_severity_of_its_code() -> None:
    assert FindingCode.NODE_NAME.finding("a", "b") == Finding("node-name", Severity.SHOULD, "a", "b")
