"""``Option``, the metadata of a configuration option, and the options of every policy: its CPUs, topology hints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from policies.alignment import TopologyOptions
from sysfs.cpuset import CpuSet

T = TypeVar("T")
P = ParamSpec("P")
_ROW: Final = "option"


@dataclass(frozen=True, slots=True)
class Option:
    """The properties of an option beside its type.

    ``key`` is its YAML key inside its group, ``was`` are former keys, which are still read; ``flag`` is its
    command-line option ('' = none), ``values`` the form of its values where the type does not tell, ``choices`` all of
    its values where the type does not list them, ``read`` turns text into the value (ValueError when it cannot),
    ``remedy`` is added to the error about a wrong value. A number is from ``least`` to ``most`` (None: any from there),
    or 0 where ``is_zero_off``. ``takes_mapping``: an entry ``KEY: VALUE`` is read as ``KEY=VALUE``, the only one where
    no list is taken. ``item_fields``: an item of the list is a mapping of these keys to lists, read as
    ``KEY=A,B KEY=C``.
    """

    key: str
    text: str
    flag: str = ""
    values: str = ""
    unit: str = ""
    is_reloadable: bool = True
    read: Callable[[str], object] | None = None
    remedy: str = ""
    least: int = 0
    most: int | None = None
    is_zero_off: bool = False
    takes_mapping: bool = False
    was: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    item_fields: tuple[str, ...] = ()


def _with_default(make: Callable[P, Option]) -> Callable[Concatenate[T, P], T]:
    def made(default: T, /, *args: P.args, **keys: P.kwargs) -> T:
        found: T = field(default=default, metadata={_ROW: make(*args, **keys)})
        return found

    return made


option = _with_default(Option)
"""Return a field of a dataclass with this default, and the properties of an ``Option``."""


def option_in(metadata: Mapping[Any, Any]) -> Option | None:
    """Return the option of a field with this metadata; None where it is none."""
    return metadata.get(_ROW)


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The CPUs that may be used at all, those of them that are kept for the system, and how topology hints count.

    The options of a policy are a subclass, named in its line of ``policies/registry.py``. Each further field is
    ``option(DEFAULT, KEY, TEXT, ...)``; the configuration reads it under the key of the policy.
    """

    available: CpuSet = CpuSet()
    reserved: CpuSet = CpuSet()  # those outside ``available`` have no effect
    topology: TopologyOptions = TopologyOptions()  # noqa: RUF009 - frozen
