"""Options that stand together under one key of the configuration."""

from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.config.option_groups import CostOptions, LogOptions, ThreadCountOptions, TopologyManager


def test_a_group_that_is_not_named_has_its_defaults() -> None:
    config = Config()
    assert (config.log, config.costs) == (LogOptions(), CostOptions())
    assert (config.thread_counts, config.topology_manager) == (ThreadCountOptions(), TopologyManager())


def test_one_option_of_a_group_leaves_the_others_at_their_defaults() -> None:
    log = parse_config("log: {level: debug}").log
    assert (log.level, log.format) == ("debug", LogOptions().format)
