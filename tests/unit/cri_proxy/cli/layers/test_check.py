import io
import json
from pathlib import Path

import pytest

from cri_proxy.cli.layers.check import LayerReport, check_all, render_layers
from cri_proxy.cli.main import run_command
from cri_proxy.errors import CommandFailed

MACHINE = "{packages: 1, cores: 4, threads: 2}"


def config_map(name: str = "cri-proxy", **keys: str) -> str:
    data = "".join(f"  {key.replace('_', '.')}.yaml: |\n    {text}\n" for key, text in keys.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n{data}"


def standard_input(text: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()))


def checked(directory: Path, text: str, machine: str = "") -> dict[str, LayerReport]:
    (directory / "manifest.yaml").write_text(text)
    return {report.layer: report for report in check_all(directory / "manifest.yaml", machine)}


def test_every_configuration_of_a_config_map_is_checked_as_its_nodes_would_read_it(tmp_path: Path) -> None:
    text = config_map(default="reservedResources: {cpu: 750m}", group_realtime="hintz: {}", node_w1="policy: none")
    found = checked(tmp_path, text)
    assert {name: report.valid for name, report in found.items()} == {
        "default": True,
        "group.realtime": False,
        "node.w1": True,
    }
    wrong = found["group.realtime"]
    assert (wrong.line, wrong.key) == (8, "hintz")
    assert "unknown option" in wrong.error


def test_of_a_manifest_the_other_objects_are_passed_over_and_lists_are_looked_into(tmp_path: Path) -> None:
    other = 'kind: ConfigMap\nmetadata: {name: grafana}\ndata:\n  grafana.yaml: "a: b"\n'
    listed = "kind: List\nitems:\n- kind: DaemonSet\n- kind: ConfigMap\n  data: {default.yaml: 'policy: none'}\n"
    found = checked(tmp_path, f"kind: DaemonSet\n---\n{other}---\n{config_map(group_a='policy: nine')}---\n{listed}")
    assert {name: report.valid for name, report in found.items()} == {"group.a": False, "default": True}


def test_a_key_that_no_node_reads_is_a_mistake(tmp_path: Path) -> None:
    found = checked(tmp_path, config_map(default="{}", defualt="{}", groups_a="{}"))
    assert {name for name, report in found.items() if not report.valid} == {"defualt", "groups.a"}
    assert "did you mean default?" in found["defualt"].error


def test_what_a_file_for_every_node_hides_is_a_warning(tmp_path: Path) -> None:
    found = checked(tmp_path, config_map(**{"cri-proxy": "{}", "group_a": "{}"}))
    assert found["group.a"].warnings == ("never used: cri-proxy.yaml beside it counts on every node",)
    assert found["cri-proxy"].warnings == ()


def test_options_that_contradict_each_other_and_cpus_that_are_not_there_are_found(tmp_path: Path) -> None:
    text = config_map(default="imageListen: /a.sock", group_big='reservedResources: {cpu: "cpuset:64"}')
    assert {name: report.valid for name, report in checked(tmp_path, text).items()} == {
        "default": False,
        "group.big": True,
    }
    found = checked(tmp_path, text, MACHINE)
    assert "64" in found["group.big"].error
    assert checked(tmp_path, config_map(default="reservedResources: {cpu: 750m}"), MACHINE)["default"].reserved == "0"


def test_a_directory_is_the_keys_of_a_config_map_or_manifests(tmp_path: Path) -> None:
    (tmp_path / "default.yaml").write_text("policy: none")
    (tmp_path / "group.realtime.yaml").write_text("a: [")
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization")
    (tmp_path / "README.md").write_text("not looked at")
    found = list(check_all(tmp_path))
    assert [(Path(each.file).name, each.valid) for each in found] == [
        ("default.yaml", True),
        ("group.realtime.yaml", False),
    ]


@pytest.mark.parametrize("text", ["", "kind: DaemonSet", "policy: none"])
def test_where_there_is_no_configuration_nothing_was_checked(tmp_path: Path, text: str) -> None:
    with pytest.raises(CommandFailed, match=r"no ConfigMap with default\.yaml"):
        checked(tmp_path, text)


def test_the_exit_status_is_for_ci_and_json_has_it_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(config_map(default="{}", group_a="polici: none").encode()))
    )
    assert run_command(["check-config", "--all", "-", "-o", "json"]) == 1
    assert [(each["layer"], each["valid"]) for each in json.loads(capsys.readouterr().out)] == [
        ("default", True),
        ("group.a", False),
    ]
    monkeypatch.setattr("sys.stdin", standard_input(config_map(group_a="{}")))
    assert run_command(["check-config", "--all", "-"]) == 0
    said = capsys.readouterr().out
    assert "-: group.a: valid" in said
    assert "without default.yaml a node" in said
    assert run_command(["check-config", "--all", "/nowhere"]) == 2


def test_a_mistake_is_told_with_file_line_and_key() -> None:
    wrong = LayerReport(file="c.yaml", layer="group.a", valid=False, error="unknown option", line=7, key="polici")
    good = LayerReport(file="c.yaml", layer="default", warnings=("old name",))
    assert render_layers((wrong, good)).splitlines() == [
        "group.a: not valid: c.yaml:7: polici: unknown option",
        "c.yaml: default: valid",
        "  warning: old name",
        "2 configurations: 1 not valid",
    ]
