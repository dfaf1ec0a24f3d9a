"""The configuration of a scenario."""

import pytest

from cri_proxy.errors import ConfigError
from cri_proxy.simulate.node import merged, read_config
from policies.topology_aware.options import TopologyAwareOptions


def test_a_change_leaves_the_other_options_as_they_are() -> None:
    before = {"adopt": "leave", "topologyAware": {"PinCPU": False, "PinMemory": False}}
    change = {"topologyaware": {"pinmemory": True}, "policy": "none"}
    assert merged(before, change) == {
        "adopt": "leave",
        "topologyAware": {"PinCPU": False, "PinMemory": True},
        "policy": "none",
    }


def test_neither_side_is_changed_by_it() -> None:
    before: dict[str, object] = {"a": {"b": 1}}
    merged(before, {"a": {"b": 2}})
    assert before == {"a": {"b": 1}}


def test_the_daemons_own_loader_reads_it() -> None:
    config = read_config({"reservedResources": {"cpu": "750m"}, "topologyAware": {"PinMemory": False}})
    assert str(config.reserved.cpu) == "750m"
    assert not config.of_policy(TopologyAwareOptions).pin_memory


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        read_config({"reservedResource": {"cpu": "750m"}})
