"""The values of JSON annotations, label selectors among them (``metav1.LabelSelector``).

Every error names the field, the value and what is expected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from policies.errors import PolicyBaseError
from sysfs.documents.forms import TEXT, by_name, each, form, one_of, scalar
from sysfs.documents.table import KeyRow, Table, keyed
from sysfs.documents.value import DocumentValue

_SHOWN_CHARACTERS: Final = 60


@dataclass(eq=False)
class AnnotationError(PolicyBaseError):
    """An annotation that cannot be understood; ``problem`` names the field and the remedy."""

    key: str
    problem: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}"


class JsonValue(DocumentValue):
    """A value of an annotation: as for the API server, a number is no text."""

    expected = ("a text in quotes", "a list in brackets", "an object in braces")

    def _scalar(self) -> str | None:
        return self._value if isinstance(self._value, str) else None

    def shown(self) -> str:
        """Return the value as Python has it, cut where it is long."""
        text = repr(self._value)
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class LabelCondition:
    """One condition on a label; ``values`` are those of In and NotIn, empty for the other two operators."""

    key: str = keyed(TEXT, "the label", missing="key is missing")
    operator: str = keyed(scalar(one_of(OPERATORS)), "In, NotIn, Exists or DoesNotExist", missing="operator is missing")
    values: tuple[str, ...] = keyed(each(TEXT), "of In and NotIn", ())

    def __post_init__(self) -> None:
        """Refuse values that the operator cannot have. Raises ValueError."""
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            remedy = "leave values out" if self.values else "give at least one value"
            raise ValueError(f"{self.operator} of {self.key!r:.60}: {remedy}")

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet it. NotIn holds for a label that is absent, as in Kubernetes."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
        return self.key not in labels


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions that all have to hold; an empty selector matches everything.

    >>> LabelSelector((LabelCondition("speed", "In", ("100G",)),)).matches({"speed": "100G"})
    True
    >>> LabelSelector().matches({})
    True
    """

    conditions: tuple[LabelCondition, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet every condition."""
        return all(condition.holds(labels) for condition in self.conditions)


def _labels(field: JsonValue, what: str) -> tuple[LabelCondition, ...]:
    labels = by_name(TEXT).read(field, what, None)
    return tuple(LabelCondition(key, "In", (label,)) for key, label in labels.items())


CONDITION: Final = Table(LabelCondition)
SELECTOR: Final = Table(
    lambda labels=(), expressions=(): LabelSelector((*labels, *expressions)),
    KeyRow("matchLabels", form(_labels), "labels with their values", field="labels"),
    KeyRow("matchExpressions", each(CONDITION), "conditions on labels", field="expressions"),
)
