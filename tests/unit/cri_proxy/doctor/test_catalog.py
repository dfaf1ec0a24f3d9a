import re

from cri_proxy.doctor import catalog
from cri_proxy.doctor.catalog import CODES, Finding, FindingCode, Severity, finding


def test_every_code_of_the_module_is_listed_once() -> None:
    defined = [value for value in vars(catalog).values() if isinstance(value, FindingCode)]
    assert sorted(code.name for code in CODES) == sorted({code.name for code in defined})


def test_a_code_is_in_kebab_case_and_says_what_it_means() -> None:
    assert [c.name for c in CODES if not re.fullmatch(r"[a-z]+(-[a-z]+)*", c.name) or len(c.text) < 20] == []


def test_a_finding_has_the_severity_of_its_code() -> None:
    assert finding(catalog.NODE_NAME, "a", "b") == Finding("node-name", Severity.SHOULD, "a", "b")
