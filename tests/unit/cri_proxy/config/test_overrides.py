import argparse

import pytest

from cri_proxy.config.cpus import CpuList, CpuQuantity
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.config.overrides import add_options, given_options
from cri_proxy.config.values import with_values
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet


def overridden(*argv: str, base: str = "") -> Config:
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    add_options(parser)
    return with_values(parse_config(base), given_options(parser.parse_args(argv)))


def test_the_seeds_command_line_works() -> None:
    config = overridden("--policy", "topology-aware", "--reserved-resources", "cpu=750m")
    assert (config.policy, config.reserved.cpu) == ("topology-aware", CpuQuantity(750))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("--topology-aware-pin-cpu", True),
        ("--topology-aware-pin-cpu=true", True),
        ("--topology-aware-pin-cpu=false", False),
        ("--no-topology-aware-pin-cpu", False),
    ],
)
def test_a_boolean_comes_in_four_forms(argument: str, value: bool) -> None:
    assert (
        overridden(argument, base=f"topologyAware: {{PinCPU: {not value}}}").of_policy(TopologyAwareOptions).pin_cpu
        is value
    )


def test_what_is_not_on_the_command_line_stays() -> None:
    assert overridden("--policy=none", base="adopt: leave") == parse_config("adopt: leave\npolicy: none")


def test_resources_may_be_given_without_their_name() -> None:
    assert overridden("--available-resources", "cpuset:0-3").available.cpu == CpuList(CpuSet.parse("0-3"))


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--reserved-resources=memory=2Gi", "only CPUs"),
        ("--reserved-resources=cpu=lots", "expected a quantity"),
        ("--topology-aware-pin-memory=perhaps", "expected true or false"),
        ("--relay=carrier-pigeon", "expected one of splice, grpc"),
    ],
)
def test_a_wrong_value_is_wrong_usage(argument: str, problem: str) -> None:
    with pytest.raises(argparse.ArgumentError, match=problem):
        overridden(argument)


def test_a_command_can_take_some_of_the_options_only() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    add_options(parser, only={"stateDir"})
    args, rest = parser.parse_known_args(["--state-dir", "/s", "--policy", "none"])
    assert (with_values(Config(), given_options(args)).state_dir, rest) == ("/s", ["--policy", "none"])
