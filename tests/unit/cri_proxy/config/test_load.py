from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.config.cpus import AllBut, CpuList, CpuQuantity
from cri_proxy.config.load import load_config, parse_config
from cri_proxy.config.model import Config, CpuReserve
from cri_proxy.cri.annotations.foreign_rows import EVERY_ROW
from cri_proxy.errors import ConfigError
from sysfs.cpuset import CpuSet

CONFIGS = Path(__file__).parents[4] / "configs"
RESERVED = CpuReserve(CpuQuantity(750))


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda p: p.name)
def test_every_example_loads(path: Path) -> None:
    assert load_config(path).config != Config()


def test_the_example_for_a_shared_node_restricts_each_key_that_takes_from_others() -> None:
    """A new key says in its row what it takes: nothing, or it belongs into the example and the admission policy."""
    entries = load_config(CONFIGS / "shared-node.yaml").config.restricted_annotations
    assert {key for entry in entries for key in entry.keys} == {row.stands_for for row in EVERY_ROW if row.takes}


SHOP = "restrictedAnnotations:\n- keys: [cpu.preserve]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SHOP, ("cpu.preserve",)),
        (f"{SHOP}  namespaces: [a, 'b-*']", ("cpu.preserve", "a", "b-*")),
        ("restrictedAnnotations: {Keys: cpu.preserve, namespaces: a}", ("cpu.preserve", "a")),
        (f"{SHOP}  namespaces: null", ("cpu.preserve",)),
        (f"{SHOP}  namespaces: []", ("cpu.preserve",)),
    ],
)
def test_restricted_annotations_are_mappings_of_keys_and_namespaces(text: str, expected: tuple[str, ...]) -> None:
    (entry,) = parse_config(text).restricted_annotations
    assert (*entry.keys, *entry.namespaces) == expected


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (f"{SHOP}  namespace: [a]", 3, "no key of an entry"),
        ("restrictedAnnotations: [cpu.preserve]", 1, "list of mappings of keys and namespaces"),
        ("restrictedAnnotations:\n- namespaces: [a]", 1, "at least one of keys"),
        ("restrictedAnnotations:\n- keys: [cpu.preserv]", 1, "did you mean cpu.preserve"),
        (f"{SHOP}  namespaces: ['a b']", 3, "a list of words"),
        (f"{SHOP}  namespaces: ['a,b=c']", 3, "a list of words"),
        (f"{SHOP}  namespaces: [[a]]", 3, "a list of words"),
        (f"{SHOP}  namespaces: ['']", 3, "a list of words"),
    ],
)
def test_an_entry_that_is_none_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        parse_config(text)
    assert (refused.value.line, "restrictedAnnotations" in str(refused.value)) == (line, True)


def test_the_example_of_all_options_shows_the_defaults() -> None:
    assert load_config(CONFIGS / "all-options.yaml").config == replace(Config(), reserved=RESERVED)


@pytest.mark.parametrize(
    ("node", "group", "reserved"),
    [
        ("worker-1", "realtime", CpuQuantity(2000)),
        ("worker-2", "realtime", CpuList(CpuSet.parse("0-1"))),
        ("worker-2", "", CpuQuantity(750)),
    ],
)
def test_the_first_file_that_applies_to_the_node_wins(node: str, group: str, reserved: object) -> None:
    config = load_config(CONFIGS / "configmap.yaml", node_name=node, node_group=group).config
    assert config.reserved.cpu == reserved


def test_cri_resource_managers_users_can_move_without_rewriting() -> None:
    loaded = load_config(CONFIGS / "cri-resource-manager.yaml")
    assert loaded.config.available.cpu == AllBut(CpuSet.parse("1"))
    assert loaded.config.reserved == RESERVED
    assert loaded.warnings == ("logger: a section of cri-resource-manager, without effect here",)


def test_a_mounted_configmap_directory_is_read(tmp_path: Path) -> None:
    (tmp_path / "node.w1.yaml").write_text("adopt: leave")
    (tmp_path / "default.yaml").write_text("adopt: kill")
    loaded = load_config(tmp_path, node_name="w1")
    assert (loaded.config.adopt, loaded.path) == ("leave", tmp_path / "node.w1.yaml")


def test_a_mounted_configmap_of_cri_resource_manager_is_read(tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("Active: topology-aware\nReservedResources:\n  CPU: 750m\n")
    (tmp_path / "logger").write_text("Debug: policy\n")
    loaded = load_config(tmp_path)
    assert (loaded.config.reserved, loaded.path) == (RESERVED, tmp_path)
    assert loaded.warnings == ("logger: a section of cri-resource-manager, without effect here",)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("policy", "Active: none\nReservdResources: {}", ":2: ReservdResources: unknown option; did you mean"),
        ("policy", "topology-aware:\n  PinCPU: maybe", ":2: topologyAware.PinCPU: expected true or false"),
        ("policy", "Active: none\n\tx", ":2: not YAML"),
        ("loger", "Debug: x", ":1: loger: unknown option"),
    ],
)
def test_a_mistake_in_a_section_is_named_with_its_file_and_line(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    (tmp_path / "policy").write_text("Active: none\n")
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / name}{problem}")


def test_the_keys_that_a_file_sets_are_told() -> None:
    assert load_config(CONFIGS / "strict.yaml").given == {
        "reservedResources.cpu",
        "topologyAware.ReservedPoolNamespaces",
        "onPolicyError",
        "onStoreError",
        "strictAnnotations",
    }


def test_keys_match_without_regard_to_case() -> None:
    assert parse_config("TOPOLOGYAWARE: {pincpu: false}\nLOG: {Level: DEBUG}").log.level == "debug"


@pytest.mark.parametrize("text", ["", "topologyAware:", "adopt: null", "reservedResources: {cpu: }"])
def test_an_empty_value_says_nothing(text: str) -> None:
    assert parse_config(text) == Config()


@pytest.mark.parametrize(
    ("text", "line", "key", "problem"),
    [
        ("adopt: pin\nadpot: pin", 2, "adpot", "did you mean adopt?"),
        ("topologyAware:\n  PinCPUs: true", 2, "topologyAware.PinCPUs", "did you mean topologyAware.PinCPU?"),
        ("PinCPU: true", 1, "PinCPU", "did you mean topologyAware.PinCPU?"),
        ("zzz: 1", 1, "zzz", "known here: "),
        ("log: {level: loud}", 1, "log.level", "expected one of debug, info, warning, error, got 'loud'"),
        ("log: info", 1, "log", "expected a mapping"),
        ("adopt: {a: b}", 1, "adopt", "expected a value, got a mapping"),
        ("annotationDomains:\n- [a]", 2, "annotationDomains", "expected a list of strings"),
        ("reservedResources: {cpu: lots}", 1, "reservedResources.cpu", "expected a quantity like 750m"),
        ("topologyManager: {policy: strict}", 1, "topologyManager.policy", "expected one of none, best-effort"),
    ],
)
def test_a_mistake_is_named_with_line_and_key(text: str, line: int, key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "f.yaml")
    assert (caught.value.path, caught.value.line, caught.value.key) == ("f.yaml", line, key)
    assert problem in caught.value.problem


def test_a_former_key_is_read_and_noted(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("tellcontainers: never")
    loaded = load_config(tmp_path / "f.yaml")
    assert loaded.config.resource_files == "never"
    assert loaded.given == {"resourceFiles"}
    (note,) = loaded.warnings
    assert note == "tellcontainers: this option is called resourceFiles now; the former key is still read"


@pytest.mark.parametrize("keys", [("tellContainers", "resourceFiles"), ("resourceFiles", "tellContainers")])
def test_a_key_and_its_former_one_together_are_refused_and_both_named(keys: tuple[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config("".join(f"{key}: auto\n" for key in keys), "f.yaml")
    problem = f"{keys[0]} (line 1) and {keys[1]} are the same option: keep resourceFiles"
    assert str(caught.value) == f"f.yaml:2: resourceFiles: {problem}"


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"adopt: pin\n\xff", "not UTF-8: byte 0xff"), (b"#" * 1_100_000, "larger than"), (None, "No such file")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "f.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        load_config(tmp_path / "f.yaml")


def test_a_directory_without_a_file_for_us_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds none of cri-proxy\.yaml, node\.w1\.yaml, default\.yaml"):
        load_config(tmp_path, node_name="w1")


@given(st.text(alphabet=st.sampled_from("policyadt:{}[]-& *|\n \"'0"), max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_a_configuration_or_a_named_error(text: str) -> None:
    try:
        assert isinstance(parse_config(text), Config)
    except ConfigError as error:
        assert error.problem
