"""A peer's configuration as ours: the same options in force, and a comment on what is not the same."""

import pytest

from cri_proxy.config import layouts
from cri_proxy.config.convert import _OTHERWISE, REASONS, convert
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import known_options
from cri_proxy.errors import ConfigError
from tests.house.tree import ROOT

RESOURCE_MANAGER = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cri-resmgr-config}
data:
  policy: |
    Active: topology-aware
    AvailableResources: {CPU: "cpuset:0-63"}
    ReservedResources: {CPU: 750m}
    topology-aware:
      PinCPU: true
      ReservedPoolNamespaces: ["my-*", kube-system]
      ColocatePods:
  rdt: "options: {l3: {optional: true}}"
  logger: "Debug: policy"
"""
SEVERAL = """\
apiVersion: v1
kind: List
items:
- {kind: TopologyAwarePolicy, metadata: {name: default}, spec: {pinCPU: true, log: {debug: [policy]}}}
- {kind: TopologyAwarePolicy, metadata: {name: group.rt}, spec: {pinCPU: false, reservedResources: {cpu: "cpuset:0,1"}}}
- {kind: TopologyAwarePolicy, metadata: {name: node.w1}, spec: {unlimitedBurstable: numa, schedulingClasses: []}}
---
kind: DaemonSet
"""
BALLOONS = """\
apiVersion: config.nri/v1alpha1
kind: BalloonsPolicy
metadata: {name: default}
spec:
  reservedResources: {cpu: 1000m}
  pinMemory: false
  reservedPoolNamespaces: ["it's", 'a"b', "null", "~", "y: z", "-x", "#", "é", "*"]
  idleCPUClass: lowpower
  balloonTypes: [{name: full-core, minCPUs: 2}]
"""
OF_A_NODE = """\
{kind: ConfigMap, metadata: {name: cri-resmgr-config.default}, data: {policy: "ReservedResources: {CPU: 1}"}}
---
{kind: ConfigMap, metadata: {name: cri-resmgr-config.group.rt}, data: {policy: "ReservedResources: {CPU: 2}"}}
---
{kind: Node, metadata: {name: w1, labels: {cri-resource-manager.intel.com/group: rt}}}
"""
OF_ANOTHER_POLICY = "policy: {Active: balloons, ReservedResources: {CPU: 2}, balloons: {BalloonTypes: []}}\ncpu: {}\n"
OURS = """\
reservedResources: {memory: {0-1: 1Gi}, cpu: "2"}
restrictedAnnotations:
- {keys: [cpu.preserve], namespaces: [kube-system]}
tellContainers: never
topologyAware: {PoolWeights: {cpu: 3, memory: 1}}
log: {level: debug}
"""
SAMPLES = {
    "resource manager": RESOURCE_MANAGER,
    "several objects": SEVERAL,
    "balloons": BALLOONS,
    "of a node": OF_A_NODE,
    "another policy": OF_ANOTHER_POLICY,
    "ours": OURS,
    "empty": "",
    "by node": "kind: ConfigMap\ndata:\n  default: 'policy: {Active: none}'\n  node.w1.yaml: 'adopt: leave'\n",
    **{path.name: path.read_text() for path in sorted((ROOT / "configs").glob("*.yaml"))},
}


@pytest.mark.parametrize("names", [("", ""), ("w1", ""), ("", "rt")])
@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_written_means_what_the_file_means(name: str, names: tuple[str, str]) -> None:
    given = {"node_name": names[0], "node_group": names[1]}
    try:
        expected = parse_config(SAMPLES[name], **given)
    except ConfigError:
        with pytest.raises(ConfigError):
            convert(SAMPLES[name], "peer.yaml", **given)
        return
    assert parse_config(convert(SAMPLES[name], "peer.yaml", **given)) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (RESOURCE_MANAGER, "# rdt: a section of cri-resource-manager, without effect here; containerd itself handles"),
        (RESOURCE_MANAGER, "  # Otherwise than there: a quantity is kept on the lowest-numbered whole core"),
        (SEVERAL, "# The file has more, for --node-name and --node-group: group.rt, node.w1."),
        (SEVERAL, "# spec.log: a section of nri-plugins, without effect here; see log.level"),
        (SEVERAL, "# kind DaemonSet: without effect here"),
        (
            "policy: {topology-aware: {PreferIsolatedCPUs: true}}",
            "  # Otherwise than there: containers of several CPUs",
        ),
        (BALLOONS, "# spec.balloonTypes: a section of nri-plugins, without effect here; there are no balloons here"),
        (OF_ANOTHER_POLICY, "# policy.Active: a policy of cri-resource-manager, without effect here; topology-aware"),
        (OURS, "resourceFiles: never"),
    ],
)
def test_each_difference_has_a_comment(text: str, line: str) -> None:
    assert any(each.startswith(line) for each in convert(text, "peer.yaml").splitlines())


def test_the_group_of_the_nodes_label_is_converted() -> None:
    lines = convert(OF_A_NODE, "peer.yaml", node_name="w1").splitlines()
    assert lines[1] == "# The file has more, for --node-name and --node-group: default."
    assert lines[-1] == "  cpu: 2"


def test_every_key_that_is_known_without_effect_has_its_reason() -> None:
    known = layouts._FOREIGN_SECTIONS | layouts._FOREIGN_POLICIES | layouts._FOREIGN_SPEC
    assert known - REASONS.keys() == set()


def test_what_is_otherwise_is_said_of_options_that_there_are() -> None:
    assert _OTHERWISE.keys() <= {known.key for known in known_options()}


def test_a_key_cannot_end_its_comment() -> None:
    text = 'kind: BalloonsPolicy\nspec: {"x\\nadopt: leave": 1}\n'
    assert parse_config(convert(text, "a\nb")) == parse_config("")


def test_of_reserved_cpus_that_are_named_nothing_is_said_of_quantities() -> None:
    text = convert("reservedResources: {cpu: 'cpuset:0-1'}", "f")
    assert "  # Otherwise than there: containers there that request more than is reserved use shared CPUs too." in text
