"""Errors that precede any placement: an unknown policy, or options that cannot be used."""

from dataclasses import dataclass


class PolicyBaseError(Exception):
    """Base of everything that this package raises. "Does not fit" is never raised: it is a ``Rejected``."""


@dataclass(eq=False)
class UnknownPolicyError(PolicyBaseError):
    """A policy name that is not registered."""

    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"policy: expected one of {', '.join(self.known)}, got {self.name!r}"


@dataclass(eq=False)
class PolicyOptionsError(PolicyBaseError):
    """Options that leave nothing to place containers on: the option, its value, and what to do."""

    option: str
    value: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.option}: cannot use {self.value!r}: {self.remedy}"
