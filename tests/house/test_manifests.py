"""What is applied to a cluster: objects that Kubernetes' own schemas accept, and a chart that says the same.

``tests/golden/manifests/fleet.yaml`` is what ``kubectl kustomize packaging/kubernetes/overlays/fleet`` prints;
tests/e2e/test_packages.py lets kubectl print it again, and so what stands in ``canary`` and ``exporter-condition``.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.config.load import parse_config
from cri_proxy.installer.cluster import INSTALL, LABEL, LEASE, UNINSTALL
from cri_proxy.rollout.gate import GO_ON
from tests.fakes.chart import CHART, TemplateError, ValuesRefusedError, rendered, text_of
from tests.house.test_packaging import PROJECT
from tests.house.tree import ROOT, files, shown

KUBERNETES = ROOT / "packaging" / "kubernetes"
FLEET = ROOT / "tests" / "golden" / "manifests" / "fleet.yaml"
CANARY, CONDITION = FLEET.with_name("canary.yaml"), FLEET.with_name("exporter-condition.yaml")
# The oldest and the newest that the manifests are written for.
VERSIONS = ("1.30", "1.37")
# Read by programs and not by the API server, so that its schemas have them not.
NOT_OF_THE_API = {"Kustomization", "KubeSchedulerConfiguration"}
REPORTING = {"exporter": {"enabled": True, "condition": True}}
EVERYTHING = {
    "devicePlugin": {"enabled": True},
    "extender": {"enabled": True},
    "exporter": {"enabled": True},
    "installer": {"enabled": True},
}


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def manifests() -> Iterator[Path]:
    """The files with objects; a ConfigMap's own files in an overlay are configurations of ours."""
    plain = [p for p in files() if p.is_relative_to(KUBERNETES) and p.suffix == ".yaml" and not p.is_relative_to(CHART)]
    yield from (p for p in plain if p.parent.parent.name != "overlays" or p.name == "kustomization.yaml")


def named(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", [*manifests(), FLEET, CANARY, CONDITION], ids=shown)
def test_an_object_is_as_the_schemas_of_kubernetes_want_it(path: Path, version: str) -> None:
    objects = documents(path)
    assert objects
    for each in objects:
        if each["kind"] not in NOT_OF_THE_API:
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_objects_of_the_chart_are_so_too(version: str) -> None:
    for values in ({}, EVERYTHING, {"image": {"pullSecrets": ["one", "two"], "pullPolicy": "Always"}}):
        objects = rendered(values)
        assert objects
        for each in objects:
            kubernetes_validate.validate(each, version, strict=True)


def test_the_schemas_refuse_a_wrong_object() -> None:
    wrong = named(rendered())["DaemonSet", "cri-proxy-config"]
    wrong["spec"]["template"]["spec"]["toleration"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_the_chart_makes_the_objects_of_the_plain_manifests() -> None:
    found = named(rendered(EVERYTHING))
    for path in (
        "config-agent/access",
        "config-agent/daemonset",
        "device-plugin/daemonset",
        "extender/daemonset",
        "exporter/daemonset",
        "installer/access",
    ):
        for plain in documents(KUBERNETES / f"{path}.yaml"):
            assert found.pop((plain["kind"], plain["metadata"]["name"])) == plain
    (plain,) = documents(KUBERNETES / "installer" / "daemonset.yaml")
    assert found.pop(("DaemonSet", "cri-proxy-installer")) == plain
    assert found.keys() == {("ConfigMap", "cri-proxy")}


def test_the_chart_makes_the_objects_of_the_overlay() -> None:
    overlay = KUBERNETES / "overlays" / "fleet"
    settings = {name: (overlay / name).read_text() for name in ("default.yaml", "group.realtime.yaml")}
    values = {
        "image": {"repository": "registry.example.com/cri-proxy"},
        "configuration": {"files": settings},
    }
    assert named(rendered(values)) == named(documents(FLEET))


def test_the_chart_lets_canaries_go_first_as_the_plain_manifests_do() -> None:
    labels = ["cri-proxy.io/canary=true"]
    values = {"configuration": {"create": False}, "configAgent": {"canary": {"labels": labels}}, **REPORTING}
    found = named(rendered(values))
    arguments = container_of(found["DaemonSet", "cri-proxy-config"])["args"]
    more = ["--canary-steady=60", "--canary-timeout=900", "--config-map=kube-system/cri-proxy"]
    assert arguments[-3:] == more
    assert command_parser("config-agent", load_command("config-agent")).parse_args(arguments[1:]).canary == labels
    del arguments[-3:]  # which say what holds without them
    assert found == named([*documents(CANARY), *documents(CONDITION)])  # by which the canaries report


def test_the_chart_keeps_a_condition_as_the_plain_manifests_do() -> None:
    only = {"configuration": {"create": False}, "configAgent": {"enabled": False}}
    found = named(rendered({**only, "exporter": {"enabled": True, "condition": True}}))
    assert found == named(documents(CONDITION))
    command, *arguments = container_of(found["DaemonSet", "cri-proxy-exporter"])["args"]
    args = command_parser(command, load_command(command)).parse_args(arguments)
    assert (args.node_condition, args.node_name) == (True, "$(NODE_NAME)")  # which Kubernetes expands


def container_of(daemon_set: dict[str, Any]) -> dict[str, Any]:
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def test_the_config_agent_may_do_what_it_does_and_no_more() -> None:
    """tests/unit/cri_proxy/rollout has the calls: a GET of a Node, with canaries a list of Nodes and Events."""
    of_all, of_canaries = (
        [
            (each["kind"], rule["apiGroups"], rule["resources"], rule["verbs"])
            for each in documents(KUBERNETES / f"{name}/access.yaml")
            for rule in each.get("rules", ())
        ]
        for name in ("config-agent", "canary")
    )
    assert of_all == [("ClusterRole", [""], ["nodes"], ["get"])]
    assert of_canaries == [
        ("ClusterRole", [""], ["nodes"], ["list"]),
        ("Role", ["events.k8s.io"], ["events"], ["create"]),
    ]


def test_a_configuration_that_is_let_through_says_which_it_is() -> None:
    found = named(rendered({"configuration": {"goOn": "0123456789ab"}}))
    assert found["ConfigMap", "cri-proxy"]["data"][GO_ON] == "0123456789ab"
    assert GO_ON not in named(rendered())["ConfigMap", "cri-proxy"]["data"]


def test_the_chart_leaves_out_what_is_not_wanted() -> None:
    values = {"configuration": {"create": False}, "configAgent": {"enabled": False}}
    assert rendered(values) == []


@pytest.mark.parametrize(
    "values",
    [
        {"image": {"repository": ""}},
        {"image": {"tag": "a b"}},
        {"configuration": {"files": {"defaults.yaml": "{}"}}},
        {"configAgent": {"canary": {"labels": ["Real Time"]}}},
        {"configAgent": {"groups": ["realtime"]}},
        {"configuration": {"goOn": "yes"}},
        {"configAgent": {"maxUnavailable": "0%"}},
        {"devicePlugins": {"enabled": True}},
    ],
)
def test_the_schema_of_the_values_refuses_a_mistake(values: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        rendered(values)


LABELS = {"configAgent": {"canary": {"labels": ["a=b"]}}}
OF_EXTENDER = {"extender": {"enabled": True, "args": ["--http", "127.0.0.1:9000"]}}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (LABELS, "configAgent.canary.labels needs exporter: {enabled: true, condition: true}"),
        ({**LABELS, "exporter": {"enabled": True}}, "configAgent.canary.labels needs exporter"),
        ({"exporter": {"condition": True}}, "exporter.condition needs exporter.enabled"),
        ({"exporter": {"enabled": True, "args": ["--node-condition"]}}, "--node-condition needs rights"),
        ({"exporter": {"enabled": True, "args": ["--no-events", "--no-topology"]}}, "leave nothing to do"),
        ({"configuration": {"create": False, "goOn": "0123456789ab"}}, "configuration.goOn needs configuration.create"),
        (OF_EXTENDER, "extender.args: --http needs 127.0.0.1:8892"),
        ({"extender": {"enabled": True, "args": ["--http=127.0.0.1:88921"]}}, "extender.args: --http needs"),
        ({"extender": {"enabled": True, "args": ["--links", "/links"]}}, "extender.args: --links needs a directory"),
        ({"installer": {"enabled": True, "args": ["--turn-back"]}}, "installer.args: --turn-back is for a shell"),
    ],
)
def test_the_chart_refuses_what_could_not_work(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValuesRefusedError, match=re.escape(sentence)):
        rendered(values)


@pytest.mark.parametrize(
    "values",
    [
        {**LABELS, **REPORTING},
        {"configAgent": {"enabled": False, "canary": {"labels": ["a=b"]}}},
        {"exporter": {"enabled": True, "condition": True, "args": ["--no-events", "--no-topology"]}},
        {"extender": {"enabled": True, "args": ["--http=0.0.0.0:8892", "--log-level", "debug"]}},
        {"extender": {"enabled": True, "args": []}},
        {"extender": {**OF_EXTENDER["extender"], "enabled": False}},
    ],
)
def test_the_chart_makes_what_can_work(values: dict[str, Any]) -> None:
    assert rendered(values)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ("exporter: {condition: true}", r"exporter.condition needs exporter.enabled: true: .*"),
        ("configAgent: {groups: [realtime]}", r"\$.configAgent: .*'groups' was unexpected.*"),
    ],
    ids=["refused by the chart", "a mistake in the values"],
)
def test_values_that_cannot_be_are_one_line_of_the_command(tmp_path: Path, values: str, problem: str) -> None:
    (tmp_path / "ours.yaml").write_text(f"{values}\n")
    command = [sys.executable, "-m", "tests.fakes.chart", str(tmp_path / "ours.yaml")]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf".*/ours.yaml: {problem}\n", done.stderr)


def test_the_chart_has_the_version_of_the_program() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (PROJECT["version"],) * 2


def test_every_template_of_the_chart_says_which_manifest_it_is() -> None:
    for path in (CHART / "templates").iterdir():
        assert path.read_text().startswith(("{{- /* ", "{{- if ")), shown(path)


def test_what_is_applied_again_and_again_holds_no_configuration() -> None:
    """An overlay makes the ConfigMap of the operator's own files; the example is a file that nothing else names."""
    applied = [path for path in manifests() if path.parent != KUBERNETES]
    assert [shown(path) for path in applied for each in documents(path) if each["kind"] == "ConfigMap"] == []
    assert not any("configuration.yaml" in str(documents(p)) for p in applied if p.name == "kustomization.yaml")


def test_every_configuration_that_is_shipped_is_accepted() -> None:
    (example,) = documents(KUBERNETES / "configuration.yaml")
    chart = yaml.safe_load((CHART / "values.yaml").read_text())["configuration"]["files"]
    overlay = [path for path in (KUBERNETES / "overlays").rglob("*.yaml") if path.name != "kustomization.yaml"]
    assert overlay
    for text in [*example["data"].values(), *chart.values(), *(path.read_text() for path in overlay)]:
        parse_config(text, "cluster")


def test_an_overlay_names_the_image_once() -> None:
    for path in (KUBERNETES / "overlays").glob("*/kustomization.yaml"):
        (overlay,) = documents(path)
        ((image,), text) = overlay["images"], path.read_text()
        assert image["newName"].endswith(f"/{image['name']}")
        assert text.count(image["newName"]) == 1
        assert image["newTag"] == PROJECT["version"]


@pytest.mark.parametrize(
    "template",
    ["{{ unknown .a }}", "{{ .b }}", "{{ if .a }}", "{{ end }}", "{{ .a .a }}", "{{ else if .a }}{{ end }}"],
)
def test_the_renderer_refuses_what_it_does_not_know(template: str) -> None:
    with pytest.raises(TemplateError):
        text_of(template, {"a": 1})


def test_the_renderer_cuts_white_space_and_keeps_variables_as_go_does() -> None:
    """Expected texts are those of Go's text/template."""
    branch = '{{- if $e }}\n{{- $x = printf "%s%d" $e $i }}\n{{- end }}\n'
    template = f'{{{{- $x := "a" }}}}\n{{{{- range $i, $e := .l }}}}\n{branch}- {{{{ $x }}}}\n{{{{- end }}}}\n'
    assert text_of(template, {"l": ["", "b"]}) == "\n- a\n- b1\n"


def test_the_installer_is_started_as_it_wants_and_may_do_what_it_does() -> None:
    """What tests/unit/cri_proxy/installer ask of the API server is what the roles allow."""
    spec = documents(KUBERNETES / "installer" / "daemonset.yaml")[0]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    command, *arguments = container["args"]
    args = command_parser(command, load_command(command)).parse_args(arguments)
    assert str(args.host) == container["volumeMounts"][0]["mountPath"]
    assert container["image"] == f"cri-proxy-installer:{PROJECT['version']}"
    assert [variable["name"] for variable in container["env"]] == ["NODE_NAME"]
    objects = named(documents(KUBERNETES / "installer" / "access.yaml"))
    allowed = {
        (key[1], *rule["resources"], *rule["verbs"]) for key, each in objects.items() for rule in each.get("rules", ())
    }
    assert allowed == {
        ("cri-proxy-installer", "nodes", "get"),
        ("cri-proxy-installer-heartbeat", "leases", "get"),
        (LEASE, "leases", "get", "patch"),
        (LEASE, "leases", "create"),
    }
    (terms,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": LABEL, "operator": "In", "values": [INSTALL, UNINSTALL]} in terms["matchExpressions"]
