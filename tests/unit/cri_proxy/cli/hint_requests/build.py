"""Read a piece of YAML as the readers of hint requests get it."""

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.yaml_fields import YamlField

_DIALECT = Dialect(max_bytes=10_000, max_depth=20, max_nodes=1000)


def field(text: str) -> YamlField:
    """Return the only document of a text."""
    (found,) = YamlField.documents(text, "f", _DIALECT)
    return found
