"""What an option of the configuration says of itself, beside its type and its default."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """What an option's type does not say.

    ``key`` is its YAML key inside its group, ``flag`` its command-line option ('' = none), ``values`` the form of
    its values where the type does not tell, ``read`` turns text into the value (ValueError when it cannot),
    ``remedy`` is added to the error about a wrong value. ``takes_mapping``: an entry ``KEY: VALUE`` is read as
    ``KEY=VALUE``.
    """

    key: str
    text: str
    flag: str = ""
    values: str = ""
    unit: str = ""
    is_reloadable: bool = True
    read: Callable[[str], object] | None = None
    remedy: str = ""
    takes_mapping: bool = False
