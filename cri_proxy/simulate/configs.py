"""The configuration of a scenario: laid over the one before, and read by the daemon's own loader."""

from collections.abc import Mapping

import yaml

from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config


def merged(before: Mapping[str, object], change: Mapping[str, object]) -> dict[str, object]:
    """The options of both; the change wins, key by key, whatever the case of the keys.

    >>> merged({"topologyAware": {"PinCPU": True}}, {"topologyaware": {"PinMemory": False}})
    {'topologyAware': {'PinCPU': True, 'PinMemory': False}}
    """
    result = dict(before)
    spelled = {str(key).casefold(): key for key in before}  # a NUMA node under memoryKinds is a number
    for given, value in change.items():
        key = spelled.get(str(given).casefold(), given)
        earlier = result.get(key)
        if isinstance(value, Mapping) and isinstance(earlier, Mapping):
            result[key] = merged(earlier, value)
        else:
            result[key] = value
    return result


def read_config(options: Mapping[str, object]) -> Config:
    """These options as the daemon understands them. Raises ConfigError, whose line is not the scenario's."""
    return parse_config(yaml.safe_dump(dict(options), sort_keys=False, allow_unicode=True))
