from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.config.load import parse_config
from cri_proxy.config.option_groups import TopologyManager
from cri_proxy.config.resolve import policy_options
from cri_proxy.errors import ConfigError
from policies.alignment import TopologyPolicy, TopologyScope
from sysfs.descriptions.machine import describe
from sysfs.model import Machine

NOWHERE = Path("/dev/null")
RESERVED = "reservedResources: {cpu: 1}\n"


def nodes(count: int) -> Machine:
    return describe({"packages": 1, "nodes": count, "cores": 2})


def warnings(text: str, machine: Machine) -> tuple[str, ...]:
    return policy_options(parse_config(f"{RESERVED}{text}"), machine, NOWHERE).warnings


def test_all_options_reach_the_policy() -> None:
    flags = "prefer-closest-numa-nodes: true, preferred-allocation-hints: true"
    text = f"{{policy: restricted, scope: pod, max-allowable-numa-nodes: 12, {flags}}}"
    config = parse_config(f"topologyManager: {text}")
    plain = TopologyManager(TopologyPolicy.RESTRICTED, TopologyScope.POD)
    wanted = replace(plain, prefers_closest=True, most_nodes=12, prefers_chosen_sets=True)
    assert config.topology_manager == wanted
    assert policy_options(config, nodes(2), NOWHERE).options.topology == wanted


def test_a_policy_on_more_nodes_than_are_allowed_is_not_valid() -> None:
    text = "topologyManager: {policy: restricted, max-allowable-numa-nodes: 8}"
    assert warnings(text, nodes(8)) == ()
    with pytest.raises(ConfigError, match="8 is less than the 9 NUMA nodes of this machine; allow 9, or set") as error:
        warnings(text, nodes(9))
    assert error.value.key == "topologyManager.max-allowable-numa-nodes"


def test_without_a_policy_or_a_limit_any_number_of_nodes_is_valid() -> None:
    assert warnings("topologyManager: {policy: none, max-allowable-numa-nodes: 8}", nodes(20)) == ()
    assert warnings("topologyManager: {policy: restricted}", nodes(16)) == ()


@pytest.mark.parametrize(
    ("text", "count", "said"),
    [
        ("topologyManager: {policy: restricted}", 1, "not more than one NUMA node with CPUs: it can only refuse"),
        ("topologyManager: {policy: best-effort}", 1, "not more than one NUMA node with CPUs: it changes nothing for"),
        (
            "topologyManager: {policy: restricted}",
            17,
            "restricted, and refuses what it would have to align: hints list",
        ),
        (
            "topologyManager: {policy: best-effort}",
            17,
            "best-effort, and has no effect: hints list the sets of at most",
        ),
        ("topologyManager: {policy: restricted}\npolicy: none", 2, "policy none places no container"),
        (
            "topologyManager: {policy: single-numa-node, prefer-closest-numa-nodes: true}",
            2,
            "prefer-closest-numa-nodes is on, and has no effect with topologyManager.policy single-numa-node",
        ),
    ],
)
def test_what_has_no_effect_is_told(text: str, count: int, said: str) -> None:
    (warning,) = warnings(text, nodes(count))
    assert said in warning
    assert warnings("", nodes(count)) == ()
