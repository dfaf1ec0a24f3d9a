"""What gets installed: every import is declared, every declared package is pinned, the service can start."""

import ast
import configparser
import json
import marshal
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import distributions, packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

from cri_proxy.cli.admin import DEFAULT_ADMIN
from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.device_files.cdi import DIRECTORIES as CDI_DIRECTORIES
from cri_proxy.kubelet.device_plugin.settings import PLUGIN_DIRECTORY
from tests.house.tree import PACKAGES, ROOT, files, folder_of, parsed, python_files, shown

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = ROOT / "packaging" / "requirements"
DISTRIBUTIONS = packages_distributions()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[ <>=!~;\[]", name)[0]).lower()


def declared(*extras: str) -> set[str]:
    return {normal(d) for d in [*PROJECT["dependencies"], *(d for e in extras for d in EXTRAS[e])]}


def foreign_imports(path: Path) -> set[str]:
    """The distributions behind the imports of a file, without Python's own and ours."""
    names = {a.name for n in ast.walk(parsed(path)) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in ast.walk(parsed(path)) if isinstance(n, ast.ImportFrom) and n.module and not n.level}
    roots = {n.partition(".")[0] for n in names} - sys.stdlib_module_names - {*PACKAGES, "tests", "benchmarks"}
    return {normal(DISTRIBUTIONS.get(root, [root])[0]) for root in roots if root != "google"} | (
        {"protobuf"} if "google" in roots else set()
    )


def test_every_import_of_the_sources_is_a_declared_dependency() -> None:
    allowed = declared()
    wild = {shown(p): foreign_imports(p) - allowed for p in python_files(*PACKAGES)}
    assert {name: missing for name, missing in wild.items() if missing} == {}


def test_every_import_of_the_tests_is_a_declared_dependency() -> None:
    allowed = declared("dev")
    wild = {shown(p): foreign_imports(p) - allowed for p in python_files("tests", "benchmarks")}
    assert {name: missing for name, missing in wild.items() if missing} == {}


def test_every_declared_dependency_is_used() -> None:
    used = {name for p in python_files(*PACKAGES) for name in foreign_imports(p)}
    assert sorted(declared() - used) == []


@pytest.mark.parametrize(("pins", "extras"), [("run.txt", []), ("dev.txt", ["dev"])])
def test_every_declared_dependency_is_pinned(pins: str, extras: list[str]) -> None:
    pinned = {normal(line) for line in (PINS / pins).read_text().splitlines() if re.match(r"[a-z]", line)}
    assert sorted(declared(*extras) - pinned) == []


def test_both_lists_of_pins_agree() -> None:
    run, dev = (set(re.findall(r"^\S+==\S+", (PINS / n).read_text(), re.MULTILINE)) for n in ("run.txt", "dev.txt"))
    assert run <= dev


def test_the_service_starts_the_program_as_it_wants_to_be_started() -> None:
    unit = (ROOT / "packaging" / "cri-proxy.service").read_text()
    found = re.search(r"^ExecStart=\S+/cri-proxy (\S+) (.*) \$CRI_PROXY_ARGS$", unit, re.MULTILINE)
    assert found
    parser = command_parser(found[1], load_command(found[1]))
    assert parser.parse_args(found[2].split()).config == Path("/etc/cri-proxy/cri-proxy.yaml")


def test_the_service_comes_before_others_of_its_slice_when_cpu_time_is_short() -> None:
    unit = (ROOT / "packaging" / "cri-proxy.service").read_text()
    (weight,) = re.findall(r"^CPUWeight=(\d+)$", unit, re.MULTILINE)
    assert int(weight) > 100  # that of all others (systemd.resource-control)


def test_the_shipped_configuration_and_environment_are_accepted() -> None:
    parse_config((ROOT / "packaging" / "cri-proxy.yaml").read_text(), "cri-proxy.yaml")
    commented = (ROOT / "packaging" / "cri-proxy.default").read_text().replace("#CRI", "CRI")
    parser = command_parser("run", load_command("run"))
    for arguments in re.findall(r'^CRI_PROXY_ARGS="(.*)"$', commented, re.MULTILINE):
        parser.parse_args(arguments.split())


def test_the_environment_file_has_the_last_word_on_the_configuration() -> None:
    parser = command_parser("run", load_command("run"))
    assert parser.parse_args(["--config", "/unit", "--config", "/environment"]).config == Path("/environment")


def test_the_socket_unit_opens_the_socket_that_the_proxy_listens_on() -> None:
    unit = (ROOT / "packaging" / "cri-proxy.socket").read_text()
    assert f"\nListenStream={Config().listen.removeprefix('unix://')}\n" in unit


def test_the_service_of_the_device_plugin_starts_it_and_may_write_where_the_kubelet_looks() -> None:
    unit = (ROOT / "packaging" / "cri-proxy-device-plugin.service").read_text()
    found = re.search(r"^ExecStart=\S+/cri-proxy (\S+) (.*) \$CRI_PROXY_DEVICE_PLUGIN_ARGS$", unit, re.MULTILINE)
    assert found
    parser = command_parser(found[1], load_command(found[1]))
    assert parser.parse_args(found[2].split()).inventory == "scan"
    assert f"\nReadWritePaths=-{PLUGIN_DIRECTORY}\n" in unit
    assert f"\nStateDirectory={parser.parse_args(found[2].split()).state_dir.name}\n" in unit
    commented = (ROOT / "packaging" / "cri-proxy.default").read_text().replace("#CRI", "CRI")
    given = re.findall(r'^CRI_PROXY_DEVICE_PLUGIN_ARGS="(.+)"$', commented, re.MULTILINE)
    assert [parser.parse_args([*found[2].split(), *words.split()]).inventory for words in given] == [
        "/etc/cri-proxy/devices.yaml"
    ]


def test_the_service_of_the_exporter_starts_it_with_the_words_of_the_environment_last() -> None:
    unit = (ROOT / "packaging" / "cri-proxy-exporter.service").read_text()
    found = re.search(r"^ExecStart=\S+/cri-proxy (\S+) (.*) \$CRI_PROXY_EXPORTER_ARGS$", unit, re.MULTILINE)
    assert found
    parser = command_parser(found[1], load_command(found[1]))
    commented = (ROOT / "packaging" / "cri-proxy.default").read_text().replace("#CRI", "CRI")
    given = re.findall(r'^CRI_PROXY_EXPORTER_ARGS="(.+)"$', commented, re.MULTILINE)
    asked = [parser.parse_args([*found[2].split(), *words.split()]).kubeconfig for words in given]
    assert asked == [Path("/etc/kubernetes/exporter.conf")]


def test_the_exporter_of_the_manifest_has_the_rights_that_it_uses_and_its_socket() -> None:
    text = (ROOT / "packaging" / "kubernetes" / "exporter" / "daemonset.yaml").read_text()
    role = next(each for each in yaml.safe_load_all(text) if each["kind"] == "ClusterRole")
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["noderesourcetopologies"], ["get", "create", "update"]),
        (["events"], ["create"]),
    ]
    spec = manifest("exporter")["spec"]["template"]["spec"]
    (mount,), (volume,) = spec["containers"][0]["volumeMounts"], spec["volumes"]
    socket = DEFAULT_ADMIN.removeprefix("unix://")
    assert mount["mountPath"] == volume["hostPath"]["path"] == str(Path(socket).parent)


def test_the_rights_for_the_condition_are_apart_and_bound_to_the_own_node() -> None:
    text = (ROOT / "packaging" / "kubernetes" / "exporter-condition" / "access.yaml").read_text()
    role, binding, policy, bound = yaml.safe_load_all(text)
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]}]
    assert binding["subjects"][0]["name"] == manifest("exporter")["spec"]["template"]["spec"]["serviceAccountName"]
    expressions = [each["expression"] for each in policy["spec"]["validations"]]
    assert expressions[0] == "object.metadata.name in variables.nodes"
    assert (bound["spec"]["policyName"], bound["spec"]["validationActions"]) == (policy["metadata"]["name"], ["Deny"])


def manifest(name: str) -> dict[str, Any]:
    text = (ROOT / "packaging" / "kubernetes" / name / "daemonset.yaml").read_text()
    found: dict[str, Any] = next(each for each in yaml.safe_load_all(text) if each["kind"] == "DaemonSet")
    return found


@pytest.mark.parametrize("name", ["config-agent", "device-plugin", "exporter", "extender"])
def test_the_manifest_names_the_image_that_is_built_and_a_command_of_it(name: str) -> None:
    (container,) = manifest(name)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"cri-proxy:{PROJECT['version']}"
    assert container["command"] == ["cri-proxy"]
    command, *arguments = container["args"]
    command_parser(command, load_command(command)).parse_args(arguments)


def test_the_device_plugin_of_the_manifest_sees_what_it_reads_and_where_the_kubelet_looks() -> None:
    spec = manifest("device-plugin")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    hosts = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"]}
    assert {hosts[mount["name"]] for mount in mounts.values()} == mounts.keys()
    writable = [path for path, mount in mounts.items() if not mount.get("readOnly")]
    assert writable == [str(PLUGIN_DIRECTORY), container["args"][container["args"].index("--state-dir") + 1]]
    assert {f"/{directory}" for directory in CDI_DIRECTORIES} <= mounts.keys()
    assert str(Path(container["args"][-1]).parent) in mounts


def listed_contents(directory: Path) -> str:
    command = [sys.executable, str(ROOT / "packaging" / "node" / "sbom.py"), str(directory), "cri-proxy"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "86400"}
    return subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout


def test_the_list_of_contents_names_every_package_its_version_and_what_needs_it() -> None:
    site = Path(sysconfig.get_path("purelib"))
    text = listed_contents(site)
    found = json.loads(text)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["timestamp"] == "1970-01-02T00:00:00Z"
    main = found["metadata"]["component"]
    assert (main["name"], main["version"]) == ("cri-proxy", PROJECT["version"])
    versions = {normal(d.name): d.version for d in distributions(path=[str(site)]) if d.name != "cri-proxy"}
    assert {normal(c["name"]): c["version"] for c in found["components"]} == versions
    needs = {entry["ref"]: entry["dependsOn"] for entry in found["dependencies"]}
    direct = {ref.partition("@")[0].removeprefix("pkg:pypi/") for ref in needs[main["bom-ref"]]}
    assert direct == declared()
    assert {ref for refs in needs.values() for ref in refs} <= needs.keys()
    assert listed_contents(site) == text


@pytest.mark.parametrize(("status", "is_removed"), [(0, True), (1, False), (2, False), (127, False)])
def test_a_removal_needs_a_clear_answer_that_the_kubelet_does_not_depend_on_it(
    tmp_path: Path, status: int, is_removed: bool
) -> None:
    """A program that does not even start has a status of its own, and a Python that raises has 1."""
    asked = tmp_path / "asked"
    (tmp_path / "cri-proxy").write_text(f'#!/bin/sh\necho "$@" >{asked}\nexit {status}\n')
    (tmp_path / "deb-systemd-invoke").write_text("#!/bin/sh\n")
    for name in ("cri-proxy", "deb-systemd-invoke"):
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    script = ROOT / "packaging" / "deb" / "prerm"
    done = subprocess.run([script, "remove"], check=False, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) is is_removed
    assert asked.read_text() == "doctor --before-removal\n"
    assert ("would be left without a runtime" in done.stderr) is not is_removed
    forced = {**environment, "CRI_PROXY_REMOVE": "yes"}
    assert subprocess.run([script, "remove"], check=False, env=forced, capture_output=True).returncode == 0


def test_the_drop_in_does_not_tie_the_kubelets_life_to_ours() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "packaging" / "kubelet.service.d" / "10-cri-proxy.conf")
    assert set(unit["Unit"]) == {"Wants", "After"}


@pytest.mark.parametrize(
    "script",
    [
        *("deb/build.sh", "deb/postinst", "deb/prerm", "deb/postrm", "rpm/build.sh"),
        *("node/build.sh", "node/cri-proxy", "installer/build.sh"),
    ],
)
def test_scripts_of_the_package_are_shell(script: str) -> None:
    subprocess.run(["sh", "-n", ROOT / "packaging" / script], check=True)


def test_a_page_that_an_installation_names_is_in_the_package() -> None:
    """The package holds what is below docs, and beside it what its build installs there by name."""
    named = {
        name.rstrip(".")
        for path in [*(ROOT / "packaging").rglob("*"), *(ROOT / "docs").glob("*.md")]
        if path.is_file()
        for name in re.findall(r"/usr/share/doc/cri-proxy/([\w./-]+)", path.read_text())
    }
    assert named
    built = (ROOT / "packaging" / "node" / "build.sh").read_text()
    assert [n for n in sorted(named) if not (ROOT / "docs" / n).exists() and f'"$doc/{n}"' not in built] == []


def test_the_wheel_takes_every_file_of_the_packages_that_is_no_source() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    data = [path for path in files() if folder_of(path) in PACKAGES and path.suffix != ".py"]
    assert data
    assert [shown(path) for path in data if not any(path.match(pattern) for pattern in patterns)] == []


@pytest.mark.parametrize("name", ["__doc__", "__annotations__", "signature("])
def test_what_nodes_get_does_not_read_what_is_left_out_there(name: str) -> None:
    """``packaging/node/compile.py`` leaves docstrings and annotations of functions out."""
    assert [shown(path) for path in python_files(*PACKAGES) if name in path.read_text()] == []


def test_what_nodes_get_has_the_types_of_fields_and_not_those_of_functions(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "from dataclasses import dataclass\n\n\nclass Slots:\n    __slots__ = ('__doc__',)\n\n\n@dataclass\n"
        "class Value:\n    size: int\n\n    def grown(self, by: int, *more: int) -> int:\n        'Grow.'\n"
    )
    subprocess.run([sys.executable, ROOT / "packaging" / "node" / "compile.py", tmp_path, "/"], check=True)
    (compiled,) = tmp_path.rglob("*.pyc")
    found: dict[str, Any] = {}
    exec(marshal.loads(compiled.read_bytes()[16:]), found)  # after the header of PEP 552
    value = found["Value"]
    assert (value.__annotations__, value.grown.__annotations__) == ({"size": int}, {})
    assert value.grown.__doc__ == value.__doc__ == "-"  # dataclasses would write one
