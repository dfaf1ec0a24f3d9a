"""Resolve how topology hints count on a machine: the options of the policies, what is wrong or has no effect."""

from collections.abc import Iterator
from functools import lru_cache

from cri_proxy.config.option_groups import TopologyManager
from cri_proxy.errors import ConfigError
from policies.alignment import TopologyOptions, TopologyPolicy
from policies.hints import CLOSEST_POLICIES, MAX_LISTED_NODES
from sysfs.model import Machine

_POLICY = "topologyManager.policy"
_CLOSEST = "topologyManager.prefer-closest-numa-nodes"
_MOST = "topologyManager.max-allowable-numa-nodes"


@lru_cache(maxsize=2)  # the configuration in force, and one that is tried
def topology_options(chosen: TopologyManager) -> TopologyOptions:
    """Return how topology hints count, as the policies take it."""
    return TopologyOptions(
        chosen.policy, chosen.scope, chosen.prefers_closest, chosen.most_nodes, chosen.prefers_chosen_sets
    )


def require_few_nodes(options: TopologyOptions, machine: Machine) -> None:
    """Raise ConfigError for a topology policy on a machine of more NUMA nodes than are allowed."""
    count, most = len(machine.nodes), options.most_nodes
    if options.policy is not TopologyPolicy.NONE and most and count > most:
        problem = f"{most} is less than the {count} NUMA nodes of this machine; allow {count}, or set {_POLICY} to none"
        raise ConfigError("configuration", 0, _MOST, problem)


def topology_notes(policy: str, options: TopologyOptions, machine: Machine) -> Iterator[str]:
    """Yield what has no effect, a sentence each; ``policy`` is the one that places containers."""
    if options.policy is TopologyPolicy.NONE:
        return
    if policy == "none":
        yield f"{_POLICY} is {options.policy}, and has no effect: policy none places no container"
        return
    count = sum(1 for node in machine.nodes if node.cpus)
    if count > MAX_LISTED_NODES:
        does = (
            "has no effect" if options.policy is TopologyPolicy.BEST_EFFORT else "refuses what it would have to align"
        )
        yield (
            f"{_POLICY} is {options.policy}, and {does}: hints list the sets of at most {MAX_LISTED_NODES} NUMA nodes, "
            f"and this machine has {count} with CPUs"
        )
    if count <= 1:
        can = "it can only refuse" if options.policy is not TopologyPolicy.BEST_EFFORT else "it changes nothing for"
        yield (
            f"{_POLICY} is {options.policy}, but this machine has not more than one NUMA node with CPUs: {can} "
            "containers that the node has no room for"
        )
    if options.prefers_closest and options.policy.value not in CLOSEST_POLICIES:
        yield f"{_CLOSEST} is on, and has no effect with {_POLICY} {options.policy}: it takes a single node"
