"""The policy's options in the configuration."""

from pathlib import Path

import pytest

from cri_proxy.config.load import parse_config
from cri_proxy.config.resolve import policy_options
from policies.base import BurstLevel, CpuPriority, Threads
from policies.options import PolicyOptions
from policies.topology_aware.options import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine


def resolved(text: str) -> TopologyAwareOptions:
    options = policy_options(parse_config(f"topologyAware: {text}"), small_machine(), Path("/nonexistent")).options
    assert isinstance(options, TopologyAwareOptions)
    return options


def test_the_options_of_a_policy_and_the_cpus_of_the_machine_reach_it_together() -> None:
    options = resolved("{PinCPU: false, ReservedPoolNamespaces: [a, b]}")
    assert (options.pin_cpu, options.reserved_namespaces) == (False, ("a", "b"))
    assert options.available == small_machine().online


def test_a_policy_without_options_is_given_the_cpus_alone() -> None:
    config = parse_config("policy: none\ntopologyAware: {PinCPU: false}\nreservedResources: {cpu: 1}")
    assert policy_options(config, small_machine(), Path("/nonexistent")).options == PolicyOptions(
        small_machine().online, CpuSet.parse("0")
    )


@pytest.mark.parametrize("choice", ["auto", "true", "false"])
def test_l3_pools_are_a_choice_or_left_to_the_machine(choice: str) -> None:
    assert resolved(f"{{L3Pools: {choice}}}").l3_pools == choice


@pytest.mark.parametrize("level", BurstLevel)
def test_every_burst_level_of_the_policy_can_be_configured(level: BurstLevel) -> None:
    assert resolved(f"{{UnlimitedBurstable: {level}}}").unlimited_burst is level


@pytest.mark.parametrize("threads", Threads)
def test_every_use_of_thread_siblings_can_be_configured(threads: Threads) -> None:
    assert resolved(f"{{Hyperthreads: {threads}}}").threads is threads


@pytest.mark.parametrize("priority", CpuPriority)
def test_every_priority_can_be_configured(priority: CpuPriority) -> None:
    assert resolved(f"{{DefaultCPUPriority: {priority}}}").cpu_priority is priority


@pytest.mark.parametrize("key", ["LiftQuota", "FractionShares"])
def test_what_can_make_a_kubelet_resize_again_and_again_is_warned_of(key: str) -> None:
    config = parse_config(f"reservedResources: {{cpu: 1}}\ntopologyAware: {{{key}: true}}")
    (warning,) = policy_options(config, small_machine()).warnings
    assert warning.startswith(f"topologyAware.{key} is on: ")
