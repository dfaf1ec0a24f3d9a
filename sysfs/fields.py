"""Typed access to the keys of a machine description; every error names the key, the value and the remedy."""

from collections.abc import Mapping, Sequence

from sysfs.cpuset import CpuSet, CpuSetError
from sysfs.errors import MachineSourceError
from sysfs.known_words import did_you_mean
from sysfs.quantity import QuantityError, parse_bytes

MAX_MEMORY_BYTES = 1 << 60  # far above any machine: larger values are typing errors


class Fields:
    """One mapping of a description, and its path for error messages."""

    def __init__(self, values: Mapping[str, object], known: Sequence[str], where: str = "") -> None:
        """``where`` precedes keys in messages (``pci[0].``). Raises MachineSourceError for keys not in ``known``."""
        self._values = values
        self._where = where
        for key in values:
            if key not in known:
                problem = f"{where}{key}: unknown key; {did_you_mean(str(key), known)}"
                raise MachineSourceError("description", problem)

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def refuse(self, key: str, remedy: str) -> MachineSourceError:
        """Return the error for this key's value."""
        shown = repr(self._values.get(key))
        shown = shown if len(shown) <= 60 else shown[:60] + "..."
        return MachineSourceError("description", f"{self._where}{key}: {shown} is not valid; {remedy}")

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        """Return a whole number within the bounds. Raises MachineSourceError."""
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.refuse(key, f"give a whole number from {least} to {most}")
        return value

    def word(self, key: str, default: str, allowed: Sequence[str] = ()) -> str:
        """Return a text, one of ``allowed`` if there are any. Raises MachineSourceError."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or (allowed and value not in allowed):
            raise self.refuse(key, f"give one of {', '.join(allowed)}" if allowed else "give a text")
        return value

    def cpus(self, key: str, most: int) -> CpuSet:
        """Return a CPU list, given as ``0-3,8``, a number or a list of these; all CPUs are below ``most``."""
        return self.cpu_list(key, self._values.get(key, ""), most)

    def cpu_list(self, key: str, value: object, most: int) -> CpuSet:
        """Return the CPU list of a value inside this key's value. Raises MachineSourceError."""
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
        """Return the bytes of a quantity inside this key's value: ``2Gi`` or a number. Raises MachineSourceError."""
        remedy = "give a quantity like 2Gi or 512M"
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self.refuse(key, remedy)
        try:
            memory_bytes = parse_bytes(str(value))
        except QuantityError:
            raise self.refuse(key, remedy) from None
        if memory_bytes > MAX_MEMORY_BYTES:
            raise self.refuse(key, "it is more than an exbibyte")
        return memory_bytes

    def items(self, key: str) -> list[object]:
        """Return a list; empty without the key. Raises MachineSourceError."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise self.refuse(key, "give a list")
        return list(value)

    def mappings(self, key: str, known: Sequence[str]) -> list["Fields"]:
        """Return a list of mappings with these keys. Raises MachineSourceError."""
        found = []
        for i, item in enumerate(self.items(key)):
            if not isinstance(item, Mapping):
                raise self.refuse(key, f"give a list of mappings with the keys {', '.join(known)}")
            found.append(Fields(item, known, f"{self._where}{key}[{i}]."))
        return found

    def raw(self, key: str) -> object:
        """Return the value unchecked; None without the key."""
        return self._values.get(key)
