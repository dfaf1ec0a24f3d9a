"""The YAML values of scenario files: ``Field`` raises ScenarioError; ``documents`` reads a file within bounds."""

from collections.abc import Iterator

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.simulate.errors import ScenarioError
from cri_proxy.yaml_fields import YamlField

MAX_BYTES = 4 << 20
_DIALECT = Dialect(MAX_BYTES, max_depth=40, max_nodes=200_000, has_aliases=True)


class Field(YamlField):
    """A value of a scenario file."""

    __slots__ = ()
    error = ScenarioError


def documents(text: str, source: str) -> Iterator[Field]:
    """Yield the documents of a file, without empty ones. Raises ScenarioError for what is not YAML."""
    return Field.documents(text, source, _DIALECT)
