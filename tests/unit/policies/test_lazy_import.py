import sys
from pathlib import Path

import pytest

from policies.lazy_import import door

STUB = "from room.inside import Other as Other\nfrom room.inside import Name as Name\n"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a door: its module ``inside`` has a name, and its module ``late`` cannot be loaded."""
    package = tmp_path / "room"
    package.mkdir()
    (package / "__init__.pyi").write_text(f"{STUB}from room.late import Later as Later\n")
    (package / "__init__.py").write_text("from policies.lazy_import import door\n__getattr__ = door(__name__)\n")
    (package / "inside.py").write_text("Name = object()\nOther = object()\n")
    (package / "late.py").write_text("raise AssertionError\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("room", "room.inside", "room.late"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return package


def test_a_door_loads_the_module_of_a_name_once_it_is_asked_for(room: Path) -> None:
    load = door("room")
    assert "room.inside" not in sys.modules
    assert load("Name") is sys.modules["room.inside"].__dict__["Name"]
    assert sys.modules["room"].__dict__["Name"] is load("Name")


def test_a_name_that_the_stub_lacks_is_no_attribute(room: Path) -> None:
    with pytest.raises(AttributeError, match="module 'room' has no attribute 'Nothing'"):
        door("room")("Nothing")
