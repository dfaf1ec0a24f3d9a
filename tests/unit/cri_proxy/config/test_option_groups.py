"""Options that stand together under one key of the configuration."""

import pytest

from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option_groups import CostOptions, DeviceOptions, LogOptions, ThreadCountOptions, TopologyManager
from cri_proxy.errors import ConfigError


def test_a_group_that_is_not_named_has_its_defaults() -> None:
    config = Config()
    assert (config.log, config.costs) == (LogOptions(), CostOptions())
    assert (config.thread_counts, config.topology_manager) == (ThreadCountOptions(), TopologyManager())


def test_one_option_of_a_group_leaves_the_others_at_their_defaults() -> None:
    log = parse_config("log: {level: debug}").log
    assert (log.level, log.format) == ("debug", LogOptions().format)


def test_no_inventory_is_read_unless_one_is_named() -> None:
    assert parse_config("{}").devices == DeviceOptions("", scan=False)
    assert parse_config("devices: {inventory: /etc/cri-proxy/devices.yaml, scan: true}").devices == DeviceOptions(
        "/etc/cri-proxy/devices.yaml", scan=True
    )


def test_the_configuration_names_no_command() -> None:
    """Its author may be that of a ConfigMap, who would run programs as root (docs/security.md)."""
    with pytest.raises(ConfigError, match=r"devices\.healthCommand: unknown option") as caught:
        parse_config("devices: {healthCommand: /usr/bin/nvidia-smi -q -x}")
    assert "health" in str(caught.value).partition("unknown option")[2]
    assert [known.key for known in known_options() if "command" in known.key.casefold()] == []


def test_a_relative_path_is_refused_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"devices\.inventory"):
        parse_config("devices: {inventory: devices.yaml}")
