from pathlib import Path

import pytest

from cri_proxy.simulate.run_files import run_scenario, run_texts, text_of
from cri_proxy.simulate.scenario.parse import parse_scenario

GOOD = "machine: {cores: 2}\nsteps:\n- create: {pod: a, containers: [{name: c}]}\n- expect: cpus('a/c') == {0, 1}\n"
WRONG = "machine: {cores: 2}\nsteps:\n- expect: ok() == False\n"
BROKEN = "machine: {cores: none}\n"


def test_a_scenario_that_is_met_is_good() -> None:
    performance = run_scenario(parse_scenario(GOOD))
    assert performance.is_good
    assert "all expectations met" in performance.text


def test_a_refused_step_is_an_answer_like_any_other() -> None:
    create = "create: {pod: a, qos: guaranteed, containers: [{name: c, cpu: 3}]}"
    performance = run_scenario(parse_scenario(f"machine: {{cores: 2}}\nsteps: [{create}, stop: a/c]"))
    assert performance.is_good
    assert [o.ok for o in performance.outcomes] == [False, False]


def test_a_step_that_cannot_be_meant_is_a_no_that_names_it() -> None:
    performance = run_scenario(parse_scenario("machine: {cores: 2}\nsteps:\n- delete: nobody", "s.yaml"))
    assert not performance.is_good
    assert performance.error.startswith("s.yaml:3: step 0: there is no pod nobody")


def test_an_unmet_expectation_and_a_machine_that_does_not_do_are_a_no() -> None:
    assert not run_scenario(parse_scenario(WRONG)).is_good
    broken = run_scenario(parse_scenario(BROKEN, "s.yaml"))
    assert not broken.is_good
    assert broken.json_value() == {"error": broken.error}
    assert broken.error.startswith("s.yaml:1: ")


def test_the_answer_has_the_steps_and_what_the_daemon_would_warn_of() -> None:
    value = run_scenario(parse_scenario(GOOD)).json_value()
    assert list(value) == ["steps", "warnings"]
    assert "reservedResources" in str(value["warnings"])


def test_every_document_of_every_file_has_its_answer(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(f"{GOOD}---\n{BROKEN}---\n{WRONG}")
    second.write_text("nonsense: 1")
    found = [(p.is_good, bool(p.error)) for p in run_texts((str(path), text_of(str(path))) for path in (first, second))]
    assert found == [(True, False), (False, True), (False, False), (False, True)]


@pytest.mark.parametrize(("data", "expected"), [(b"\xff\xfe\xff", "not UTF-8"), (b"a: [", "not YAML")])
def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path, data: bytes, expected: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(data)
    assert [expected in found.error for found in run_texts([(str(file), text_of(str(file)))])] == [True]


def test_a_file_that_is_not_there_is_one_error() -> None:
    assert ["No such file" in found.error for found in run_texts([("/no/s.yaml", text_of("/no/s.yaml"))])] == [True]
