import pytest

from cri_proxy.bounded_yaml import Scalar
from cri_proxy.config.layouts import Normalized, config_trees, file_names, names_for, normalize
from cri_proxy.config.load import parse_config
from cri_proxy.errors import ConfigError
from policies.topology_aware import TopologyAwareOptions

NAMES = file_names("n1", "g1")
OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n"


def plain(text: str) -> Normalized:
    return normalize(config_trees(text, "f"), "f", NAMES)


def keys(text: str) -> list[tuple[str, int]]:
    return [(item.key, item.line) for item in plain(text).items]


def test_the_nodes_own_file_comes_before_its_groups() -> None:
    layers = ("node.n1.yaml", "node.n1", "group.g1.yaml", "group.g1", "default.yaml", "default")
    assert ("cri-proxy.yaml", *layers) == NAMES


def test_our_own_layout_stays_as_it_is() -> None:
    assert keys("policy: none\nadopt: pin") == [("policy", 1), ("adopt", 2)]


def test_a_configmap_object_holds_files_and_lines_count_in_the_whole() -> None:
    text = OBJECT + "  default.yaml: 'adopt: leave'\n  group.g1.yaml: |\n    adopt: pin\n    http: off\n"
    assert keys(text) == [("adopt", 7), ("http", 8)]


def test_a_configmap_object_may_hold_sections() -> None:
    text = OBJECT + "  policy: |\n    Active: none\n    ReservedResources:\n      CPU: 1\n  logger: ''\n"
    assert keys(text) == [("policy", 6), ("ReservedResources", 7)]


def test_a_configmap_object_may_hold_files_by_the_names_of_cri_resource_managers_configmaps() -> None:
    text = OBJECT + "  default: 'adopt: leave'\n  group.g1: 'http: off'\n  policy: 'Active: none'\n"
    assert keys(text) == [("http", 6)]


def test_the_layout_of_cri_resource_manager_is_renamed() -> None:
    text = "policy:\n  Active: topology-aware\n  topology-aware: {PinCPU: true}\n  balloons: {}\nlogger: {}\n"
    assert keys(text) == [("policy", 2), ("topologyAware", 3)]


@pytest.mark.parametrize("active", ["balloons", "podpools", "static-plus", "Memtier"])
def test_a_policy_that_only_cri_resource_manager_has_is_named_and_stops_no_start(active: str) -> None:
    found = plain(f"policy: {{Active: {active}, ReservedResources: {{CPU: 1}}}}")
    assert found.warnings == ("policy.Active: a policy of cri-resource-manager, without effect here",)
    assert [item.key for item in found.items] == ["ReservedResources"]
    with pytest.raises(ConfigError, match="got 'nosuch'"):
        parse_config("policy: {Active: nosuch}")


def test_the_object_of_nri_plugins_is_understood() -> None:
    text = "apiVersion: config.nri/v1alpha1\nkind: TopologyAwarePolicy\nmetadata: {name: default}\nspec:\n"
    text += "  pinCPU: false\n  unlimitedBurstable: numa\n  defaultCPUPriority: low\n  reservedResources: {cpu: 750m}\n"
    config = parse_config(text)
    chosen = config.of_policy(TopologyAwareOptions)
    assert (chosen.pin_cpu, chosen.unlimited_burst, chosen.cpu_priority) == (False, "numa", "low")
    assert str(config.reserved.cpu) == "750m"
    with pytest.raises(
        ConfigError, match=r"f:4: topologyAware\.pinCPUs: unknown option; did you mean topologyAware\.PinCPU"
    ):
        parse_config("kind: TopologyAwarePolicy\nspec:\n  pinMemory: true\n  pinCPUs: true", "f")


def test_sections_of_nri_plugins_are_left_out_and_said() -> None:
    found = plain("kind: TopologyAwarePolicy\nspec: {log: {debug: [x]}, cpuClasses: []}")
    assert (found.items, [w.partition(":")[0] for w in found.warnings]) == ((), ["spec.log", "spec.cpuClasses"])


def test_the_newer_options_may_stand_in_the_older_layout() -> None:
    config = parse_config("policy: {Active: topology-aware, topology-aware: {UnlimitedBurstable: die}}")
    assert config.of_policy(TopologyAwareOptions).unlimited_burst == "die"


def policy(name: str, cpu: int, kind: str = "TopologyAwarePolicy") -> str:
    return f"kind: {kind}\nmetadata: {{name: {name}}}\nspec: {{reservedResources: {{cpu: {cpu}}}, pinCPU: true}}\n"


@pytest.mark.parametrize(
    ("names", "line"),
    [(["default", "group.g1", "node.n1"], 9), (["group.g1", "default"], 1), (["default", "node.n2"], 1), (["any"], 1)],
)
def test_of_several_objects_that_of_the_node_counts_then_its_groups_then_the_default(
    names: list[str], line: int
) -> None:
    assert keys("---\n".join(policy(name, 1) for name in names))[0] == ("reservedResources", line + 2)


def test_a_list_is_read_and_other_objects_in_it_are_passed_over() -> None:
    items = [
        f"{{kind: TopologyAwarePolicy, metadata: {{name: {name}}}, spec: {{pinCPU: true}}}}"
        for name in ("default", "node.n1")
    ]
    found = plain(
        f"kind: List\nitems: [{{kind: ServiceAccount}}, {', '.join(items)}, {{kind: List, items: [{{kind: Role}}]}}]"
    )
    assert [item.key for item in found.items] == ["topologyAware"]
    assert found.warnings == ("kind Role: without effect here", "kind ServiceAccount: without effect here")


def test_a_policy_of_ours_comes_before_a_configmap_and_that_before_balloons() -> None:
    texts = [policy("default", 1, "BalloonsPolicy"), f"{OBJECT}  default: 'adopt: pin'\n", policy("default", 2)]
    assert [keys("---\n".join(texts[:count]))[0][0] for count in (1, 2, 3)] == [
        "reservedResources",
        "adopt",
        "reservedResources",
    ]


def test_an_object_that_could_have_been_the_configuration_is_named() -> None:
    config_map = f"{OBJECT}  default: 'adopt: pin'\n"
    both = plain("---\n".join([config_map, policy("default", 1)]))
    counts = "TopologyAwarePolicy default counts"
    assert [w for w in both.warnings if "passed over" in w] == [f"ConfigMap x: passed over, {counts}"]
    twice = plain("---\n".join([config_map, config_map]))
    assert twice.warnings == ("ConfigMap x: passed over, ConfigMap x counts",)
    other = plain(f"adopt: pin\n---\n{config_map}")
    assert other.warnings == ("ConfigMap x: passed over, the document without a kind counts",)
    assert plain("---\n".join(policy(name, 1) for name in ("default", "node.n2"))).warnings == ()


def config_map(name: str, adopt: str) -> str:
    data = f"{{policy: 'Active: topology-aware', adopt: {adopt}}}"
    return f"kind: ConfigMap\nmetadata: {{name: cri-resmgr-config.{name}}}\ndata: {data}\n"


@pytest.mark.parametrize(
    ("names", "adopt"),
    [(("default", "group.g1", "node.n1"), "pin"), (("default", "group.g1"), "leave"), (("node.n2", "default"), "keep")],
)
def test_of_the_configmaps_of_cri_resource_manager_that_of_the_node_counts(names: tuple[str, ...], adopt: str) -> None:
    adopts = {"node.n1": "pin", "group.g1": "leave", "default": "keep", "node.n2": "pin"}
    found = plain("---\n".join(config_map(name, adopts[name]) for name in names))
    given = {item.key: item.value for item in found.items}["adopt"]
    assert isinstance(given, Scalar)
    assert (given.text, found.warnings) == (adopt, ())


NODE = "kind: Node\nmetadata: {name: n1, labels: {config.nri/group: g1}}\n"
TWO_LAYERS = f"{policy('default', 1)}---\n{policy('group.g1', 2)}---\n"


@pytest.mark.parametrize(
    ("node", "group", "cpus", "warnings"),
    [
        ("n1", "", 2, ()),
        ("n1", "g1", 2, ()),
        ("n1", "g2", 1, ("kind Node: without effect here",)),
        ("n2", "", 1, ("kind Node: without effect here",)),
    ],
)
def test_the_label_of_the_node_names_its_group_where_nothing_else_does(
    node: str, group: str, cpus: int, warnings: tuple[str, ...]
) -> None:
    trees = config_trees(TWO_LAYERS + NODE, "f")
    found = normalize(trees, "f", names_for(trees, node, group))
    assert found.warnings == warnings
    given = parse_config(TWO_LAYERS + NODE, node_name=node, node_group=group)
    assert str(given.reserved.cpu) == str(parse_config(f"reservedResources: {{cpu: {cpus}}}").reserved.cpu)


@pytest.mark.parametrize("kind", ["BalloonsPolicy", "TemplatePolicy"])
def test_of_other_policies_what_all_share_is_read_and_the_rest_is_named(kind: str) -> None:
    spec = "{reservedResources: {cpu: 1}, pinMemory: false, balloonTypes: [], idleCPUClass: x}"
    found = plain(f"kind: {kind}\nspec: {spec}\n")
    assert [item.key for item in found.items] == ["reservedResources", "topologyAware"]
    assert [warning.partition(":")[0] for warning in found.warnings] == ["spec.balloonTypes", "spec.idleCPUClass"]


def test_what_is_left_out_is_said() -> None:
    warnings = plain("policy: {Active: none, podpools: {}}\nrdt: {}").warnings
    assert [warning.partition(":")[0] for warning in warnings] == ["rdt", "policy.podpools"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "expected a mapping"),
        ("kind: Pod", "expected ConfigMap, TopologyAwarePolicy, BalloonsPolicy or TemplatePolicy, got 'Pod'"),
        ("kind: List\nitems: [{kind: Pod}, {kind: Secret}]", "expected ConfigMap, .*, got 'Pod'"),
        ("adopt: pin\n---\nadopt: leave", "another configuration begins here: keep one of the two"),
        (OBJECT + "  policy: |\n    Active: none\n    ---\n    Active: none\n", "another document begins here"),
        (
            f"{config_map('node.n2', 'pin')}---\n{config_map('group.g2', 'pin')}",
            "holds none of .*; found: node.n2, group.g2$",
        ),
        (f"{policy('node.n2', 1)}---\n{policy('group.g2', 2)}", "holds none of .*; found: node.n2, group.g2$"),
        ("kind: TopologyAwarePolicy\nspec: []", "spec: expected a mapping"),
        ("kind: TopologyAwarePolicy\npinCPU: true", "pinCPU: is no key of a TopologyAwarePolicy: use spec"),
        ("kind: ConfigMap\nspec: {}", "spec: is no key of a ConfigMap"),
        (OBJECT + "  other.yaml: ''", "holds none of cri-proxy.yaml, node.n1.yaml"),
        (OBJECT + "  node.n2: ''", "holds none of .*; found: node.n2$"),
        (OBJECT + "".join(f"  x{i}.yaml: ''\n" for i in range(99)), "found: x0.yaml, .* x7.yaml ...$"),
        (OBJECT + "  default.yaml: {adopt: pin}", "expected a string"),
        ("kind: ConfigMap\ndata: []", "data: expected a mapping"),
    ],
)
def test_a_wrong_shape_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        plain(text)


@pytest.mark.parametrize("text", ["", OBJECT, OBJECT + "  default.yaml: ''"])
def test_nothing_said_means_defaults(text: str) -> None:
    assert plain(text).items == ()
