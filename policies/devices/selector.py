"""Label selectors as Kubernetes has them (``metav1.LabelSelector``): all conditions hold; an empty one matches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from policies.devices.fields import FieldError, list_of, mapping_of, object_of, shown, text_of

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class LabelCondition:
    """One condition on a label; ``values`` are those of In and NotIn, empty for the other two operators."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

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
    """Conditions that all have to hold.

    >>> LabelSelector((LabelCondition("speed", "In", ("100G",)),)).matches({"speed": "100G"})
    True
    >>> LabelSelector().matches({})
    True
    """

    conditions: tuple[LabelCondition, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet every condition."""
        return all(condition.holds(labels) for condition in self.conditions)


def read_selector(value: object, what: str) -> LabelSelector:
    """Return the selector of an object with ``matchLabels`` and ``matchExpressions``. Raises FieldError.

    >>> read_selector({"matchLabels": {"speed": "100G"}}, "selector").conditions
    (LabelCondition(key='speed', operator='In', values=('100G',)),)
    """
    fields = object_of(value, what, ("matchLabels", "matchExpressions"))
    labels = mapping_of(fields.get("matchLabels", {}), f"{what}.matchLabels")
    conditions = [
        LabelCondition(key, "In", (text_of(label, f"{what}.matchLabels.{key}"),)) for key, label in labels.items()
    ]
    where = f"{what}.matchExpressions"
    conditions += (_condition(item, where) for item in list_of(fields.get("matchExpressions", ()), where))
    return LabelSelector(tuple(conditions))


def _condition(value: object, what: str) -> LabelCondition:
    fields = object_of(value, what, ("key", "operator", "values"))
    for key in ("key", "operator"):
        if key not in fields:
            raise FieldError(f"{what}: {key} is missing in {shown(value)}")
    operator = text_of(fields["operator"], f"{what}.operator")
    if operator not in OPERATORS:
        raise FieldError(f"{what}.operator: expected one of {', '.join(OPERATORS)}, got {shown(operator)}")
    values = tuple(text_of(item, f"{what}.values") for item in list_of(fields.get("values", ()), f"{what}.values"))
    if bool(values) != (operator in ("In", "NotIn")):
        remedy = "give at least one value" if not values else "leave values out"
        raise FieldError(f"{what}: {operator} of {shown(fields['key'])}: {remedy}")
    return LabelCondition(text_of(fields["key"], f"{what}.key"), operator, values)
