"""Say which keys a file should have; where it has none of them, repeat none of its text in errors. Pure.

A link or a mistake may put a file of secrets there, while errors come to the log and to everybody on the node.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.yaml_fields import DocumentError, YamlField


@dataclass(frozen=True, slots=True)
class FileForm:
    """A kind of file that others write: its ``name``, what is ``expected``, and the ``command`` that reads such a file.

    ``is_known`` returns whether a document has a key of this kind that is understood. ``as_yaml`` turns a text to YAML.
    """

    name: str
    expected: str
    command: str
    dialect: Dialect
    is_known: Callable[[YamlField], bool]
    as_yaml: Callable[[str], str] = str

    @contextmanager
    def redacted(self, text: str) -> Iterator[None]:
        """Raise a DocumentError about this text as it is where a key is known, else with nothing of the text in it."""
        try:
            yield
        except DocumentError as error:
            if not text.strip() or self._has_key(text, error.line):
                raise
            problem = (
                f"no key of {self.name} is understood, so none of its text is shown: expected {self.expected} "
                f"({self.command} FILE shows what is wrong)"
            )
            raise replace(error, problem=problem) from None

    def _has_key(self, text: str, line: int) -> bool:
        """Return whether a key is known; of a text that is not YAML from ``line`` on, above it."""
        try:
            return any(map(self.is_known, YamlField.documents(self.as_yaml(text), "", self.dialect)))
        except DocumentError:
            return line > 0 and self._has_key("\n".join(text.split("\n")[: line - 1]), 0)
