import io
import json
from pathlib import Path

import pytest

from cri_proxy.cli.lint import lint
from cri_proxy.cli.main import run_command
from cri_proxy.cri.annotations.rules import AnnotationRules

OURS = "cri-proxy.io"
SPEC = """\
spec:
  containers:
  - {name: a, resources: {limits: {cpu: 2, memory: 1Gi}}}
  - {name: b, resources: {limits: {cpu: 1, memory: 1Gi}}}
"""


def run_lint(*words: str) -> int:
    return run_command(["lint", *words])


def pod(*annotations: str, spec: str = SPEC) -> str:
    """A pod whose first annotation is in line 5."""
    lines = "".join(f"    {line}\n" for line in annotations)
    return f"kind: Pod\nmetadata:\n  name: p\n  annotations:\n{lines}{spec}"


def said(*annotations: str, spec: str = SPEC, rules: AnnotationRules = AnnotationRules()) -> list[str]:  # noqa: B008
    remarks, pods = lint(pod(*annotations, spec=spec), "f", "default", rules)
    assert pods == 1
    return [str(remark) for remark in remarks]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (f'{OURS}/prefer-shared: "true"', "there is no prefer-shared; did you mean prefer-shared-cpus?"),
        (f'prefer-shared-cpus.{OURS}/contaner.a: "true"', "expected /pod or /container.NAME behind the key"),
        (f'prefer-shared-cpus.{OURS}/container.c: "true"', "no container 'c'; known: a, b"),
        (f'{OURS}/affinity: "a: [bb]"', "no container 'bb'; did you mean b?"),
        (f'{OURS}/memory-type: "b: nvram"', "expected"),
        (f"{OURS}/cold-start: 60", "quote the value"),
        (f"{OURS}/affinity: {{a: [b]}}", "quote the value"),
    ],
)
def test_a_wish_that_does_not_count_is_a_problem_with_its_place(annotation: str, text: str) -> None:
    found = [line for line in said(annotation) if text in line]
    assert [line.partition(" problem: Pod p: annotation ")[0] for line in found] == ["f:5:5:"]


def test_a_problem_of_one_container_names_it() -> None:
    (line,) = said(f'strict.memory-type.{OURS}/container.b: "true"')
    assert line.endswith("(container b)")


@pytest.mark.parametrize("key", ["balloon.balloons.resource-policy.nri.io", "volcano.sh/numa-topology-policy"])
def test_a_wish_of_another_system_is_a_warning(key: str) -> None:
    assert said(f"{key}: restricted") == [f"f:5:5: warning: Pod p: annotation {key}: known, without effect here"]


def test_what_is_restricted_on_the_nodes_is_a_problem() -> None:
    (line,) = said(f'{OURS}/cpu.preserve: "true"', rules=AnnotationRules(trusted=("kube-system",)))
    assert "it counts in kube-system" in line


def test_a_pod_that_is_not_guaranteed_hears_why() -> None:
    spec = "spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}\n"
    expected = "f:1: note: Pod p: Burstable, since container a has no CPU limit: no container gets CPUs of its own"
    assert said(f'{OURS}/prefer-cpu-priority: "low"', spec=spec) == [expected]
    assert said("example.com/x: y", spec=spec) == []


def test_a_text_that_is_no_yaml_is_a_problem_behind_the_pods_before_it() -> None:
    remarks, pods = lint(f"{pod()}---\n{{{{ .Values.web }}}}\n", "f", "default", AnnotationRules())
    assert (pods, [(r.severity, r.line > 5) for r in remarks]) == (1, [("problem", True)])


def test_the_exit_status_tells_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "bad.yml").write_text(pod(f'{OURS}/wish: "1"'))
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / "good.json").write_text(json.dumps({"kind": "Pod", "metadata": {"name": "q"}}))
    assert run_lint(str(tmp_path / "good.json")) == 0
    assert run_lint(str(tmp_path)) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 pods checked, 1 problem"


def test_standard_input_is_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(pod().encode())))
    assert run_lint("-", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"remarks": [], "pods": 1}


def test_the_nodes_configuration_says_what_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.yaml").write_text(pod(f'{OURS}/cpu.preserve: "true"'))
    (tmp_path / "config.yaml").write_text("restrictedAnnotations: [{keys: [cpu.preserve], namespaces: [default]}]")
    assert run_lint(str(tmp_path / "pods.yaml")) == 1
    assert run_lint("--config", str(tmp_path / "config.yaml"), str(tmp_path / "pods.yaml")) == 0
    assert run_lint(str(tmp_path / "none.yaml")) == 1
    assert "none.yaml: cannot be read: No such file" in capsys.readouterr().err
