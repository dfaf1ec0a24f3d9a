import sys
from types import ModuleType

import pytest

from policies.lazy_import import door


def test_a_door_loads_the_module_of_a_name_once_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    room, inside = ModuleType("room"), ModuleType("room.inside")
    inside.__dict__["Name"] = found = object()
    monkeypatch.setitem(sys.modules, "room", room)
    load = door("room", "inside: Other, Name\n late: Later")
    monkeypatch.setitem(sys.modules, "room.inside", inside)
    assert load("Name") is found
    assert room.__dict__["Name"] is found


def test_a_name_that_no_row_has_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'sysfs' has no attribute 'Nothing'"):
        door("sysfs", "cpuset: CpuSet")("Nothing")
