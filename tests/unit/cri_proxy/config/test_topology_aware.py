"""The policy's options in the configuration."""

from dataclasses import fields

import pytest

from cri_proxy.config.load import parse_config
from cri_proxy.config.resolve import policy_options
from cri_proxy.config.topology_aware import TopologyAware
from policies.base import BurstLevel, CpuPriority, Threads
from policies.topology_aware.options import TopologyAwareOptions
from tests.fakes.machines import small_machine

# What is written beside the cpuset is no business of a policy that decides about cpusets.
NOT_OF_THE_POLICY = {"lift_quota", "fraction_shares"}


def resolved(text: str) -> TopologyAwareOptions:
    return policy_options(parse_config(f"topologyAware: {text}"), small_machine()).options


def test_every_option_reaches_the_policy_under_its_name() -> None:
    assert {f.name for f in fields(TopologyAware)} - NOT_OF_THE_POLICY <= {f.name for f in fields(TopologyAwareOptions)}


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
