"""In a process of its own: the classes of this one are made already."""

import subprocess
import sys

import pytest

CLASSES = """
import dataclasses
from dataclasses import dataclass, field

@dataclass(frozen=True, slots=True)
class Value:
    x: int
    hidden: str = field(default="", repr=False)

@dataclass(frozen=True, slots=True)
class Wider(Value):
    y: tuple = ()

@dataclass(frozen=True)
class Loose:
    x: int

class Plain(Loose):
    pass

@dataclass
class Cycle:
    inner: object = None

def said(act):
    try:
        return act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def added(value):
    value.z = 1
    del value.z
    return "may be added"

cycle = Cycle()
cycle.inner = cycle
lines = [
    Value(1, "s"), Wider(1, y=(Value(2),)), Plain(3), cycle,
    *(said(lambda v=v: setattr(v, "x", 2)) for v in (Value(1), Wider(1), Loose(1), Plain(1))),
    *(said(lambda v=v: delattr(v, "x")) for v in (Value(1), Wider(1), Loose(1), Plain(1))),
    *(said(lambda v=v: added(v)) for v in (Loose(1), Plain(1))),
    Value(1) == Value(1), hash(Value(1)) == hash(Value(1)), dataclasses.replace(Wider(1), y=(2,)), Plain(1).__dict__,
]
"""
SHOWN = "print(*map(str, lines), sep='\\n')\n"
SHARING = "from cri_proxy.daemon.memory import share_dataclass_methods\nshare_dataclass_methods()\n"


def output(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_shared_methods_do_what_those_of_python_do() -> None:
    assert output(SHARING + CLASSES + SHOWN) == output(CLASSES + SHOWN) != ""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python makes methods in another way")
def test_classes_share_them_and_nothing_keeps_a_copy_of_a_class() -> None:
    shared = "all(getattr(Value, n) is getattr(Loose, n) for n in ('__setattr__', '__delattr__', '__repr__'))"
    copies = "import gc; gc.collect(); names = [c.__name__ for c in gc.get_objects() if isinstance(c, type)]"
    shown = f"{copies}\nprint({shared}, names.count('Value'))"
    assert output(SHARING + CLASSES + shown) == "True 1\n"
