"""Typed reads of a machine description's keys; every error names the key, the value and the remedy."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from sysfs.cpuset import CpuSet, CpuSetError
from sysfs.errors import MachineSourceError
from sysfs.quantity import QuantityError, parse_bytes

MAX_MEMORY_BYTES = 1 << 60  # far above any machine: what is larger is a typing error


class Fields:
    """One mapping of a description, with the words to name it by."""

    def __init__(self, values: Mapping[str, object], known: Sequence[str], where: str = "") -> None:
        """Refuses keys that are not in ``known``; ``where`` is put before keys in messages (``pci[0].``)."""
        self._values = values
        self._where = where
        for key in values:
            if key not in known:
                near = get_close_matches(str(key), known, 1)
                remedy = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(known)}"
                raise MachineSourceError("description", f"{where}{key}: unknown key; {remedy}")

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def refuse(self, key: str, remedy: str) -> MachineSourceError:
        """The error for this key's value."""
        shown = repr(self._values.get(key))
        shown = shown if len(shown) <= 60 else shown[:60] + "..."
        return MachineSourceError("description", f"{self._where}{key}: {shown} does not do; {remedy}")

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number between the bounds."""
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.refuse(key, f"give a whole number from {least} to {most}")
        return value

    def word(self, key: str, default: str, allowed: Sequence[str] = ()) -> str:
        """A text, one of ``allowed`` if there are any."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or (allowed and value not in allowed):
            raise self.refuse(key, f"give one of {', '.join(allowed)}" if allowed else "give a text")
        return value

    def cpus(self, key: str, most: int) -> CpuSet:
        """A CPU list: ``0-3,8``, a number, or a list of numbers; CPUs below ``most`` only."""
        return self.cpu_list(key, self._values.get(key, ""), most)

    def cpu_list(self, key: str, value: object, most: int) -> CpuSet:
        """The same for a value that stands inside this key's."""
        remedy = f"give a CPU list like '0-3,8' of CPUs 0 to {most - 1}"
        items = value if isinstance(value, list | tuple) else [value]
        found = CpuSet()
        for item in items:
            if isinstance(item, bool) or not isinstance(item, int | str):
                raise self.refuse(key, remedy)
            try:
                found = found | CpuSet.parse(str(item))
            except CpuSetError:
                raise self.refuse(key, remedy) from None
        if found.mask >> most:
            raise self.refuse(key, remedy)
        return found

    def quantity(self, key: str, value: object) -> int:
        """Bytes from a quantity that stands in this key's value: ``2Gi``, ``512M`` or a number of bytes."""
        remedy = "give a quantity like 2Gi or 512M"
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self.refuse(key, remedy)
        try:
            memory_bytes = parse_bytes(str(value))
        except QuantityError:
            raise self.refuse(key, remedy) from None
        if memory_bytes > MAX_MEMORY_BYTES:
            raise self.refuse(key, "that is more than an exbibyte")
        return memory_bytes

    def items(self, key: str) -> list[object]:
        """A list; none when the key is not there."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise self.refuse(key, "give a list")
        return list(value)

    def mappings(self, key: str, known: Sequence[str]) -> list["Fields"]:
        """A list of mappings with these keys."""
        found = []
        for i, item in enumerate(self.items(key)):
            if not isinstance(item, Mapping):
                raise self.refuse(key, f"give a list of mappings with the keys {', '.join(known)}")
            found.append(Fields(item, known, f"{self._where}{key}[{i}]."))
        return found

    def raw(self, key: str) -> object:
        """The value as it stands; None when the key is not there."""
        return self._values.get(key)
