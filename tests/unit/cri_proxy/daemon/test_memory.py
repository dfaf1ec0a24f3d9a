"""In a process of its own: the classes of this one are made already."""

import subprocess
import sys
from pathlib import Path

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

@dataclass(frozen=True)
class Apart:
    x: int
    seen: int = field(default=0, compare=False)
    hashed: int = field(default=0, hash=True)
    compared: list = field(default_factory=list, hash=False)

@dataclass(frozen=True, eq=False)
class Same:
    x: int

@dataclass(frozen=True)
class Empty:
    pass

@dataclass(frozen=True)
class Odd:
    x: int
    def __eq__(self, other):
        return "odd"

@dataclass(order=True)
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
    Value(1) == Value(1), hash(Value(1)) == hash(Value(1)), Value(1) != Value(1), Value(1) == Value(2), Value(1) == 1,
    Wider(1, y=()) == Value(1), Value(1) == Wider(1), Plain(1) == Loose(1), Plain(1) == Plain(1),
    len({Plain(1), Loose(1)}),
    Apart(1, seen=2) == Apart(1), Apart(1, hashed=2) == Apart(1), Apart(1, compared=[2]) == Apart(1),
    hash(Apart(1, seen=2)) == hash(Apart(1, compared=[2])) == hash((1, 0)), hash(Apart(1, hashed=2)) == hash((1, 2)),
    hash(Value(1, "s")) == hash((1, "s")), hash(Wider(1)) == hash((1, "", ())), hash(Empty()) == hash(()),
    Empty() == Empty(),
    Same(1) == Same(1), hash(Same(1)) == hash((1,)), Odd(1) == 2, said(lambda: hash(Odd(1))) == hash((1,)),
    said(lambda: hash(cycle)), Cycle(1) == Cycle(1), Cycle(1) < Cycle(2), Value.__eq__(Value(1), Value(1)),
    *(f"{each.__name__} {each.__qualname__}" for each in (Value.__eq__, Value.__hash__, Apart.__eq__, Empty.__hash__)),
    dataclasses.replace(Wider(1), y=(2,)), Plain(1).__dict__,
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
    names = ("__setattr__", "__delattr__", "__repr__", "__eq__", "__hash__")
    shared = f"[getattr(Value, n) is getattr(Loose, n) for n in {names}]"
    copies = "import gc; gc.collect(); names = [c.__name__ for c in gc.get_objects() if isinstance(c, type)]"
    shown = f"print(all({shared}))\nuse()\n{copies}\nprint({shared}, names.count('Value'))"
    used = CLASSES.replace("cycle = Cycle()", "def use():\n    return {Value(1)} == {Value(1)}\n\ncycle = Cycle()")
    assert output(SHARING + used.partition("lines =")[0] + shown) == "True\n[True, True, True, False, False] 1\n"


# As ``cri-proxy run`` does it, up to its first decision.
LOADING = """
import sys
import cri_proxy.cli
from cri_proxy.daemon.memory import load_yaml_of_c, share_dataclass_methods, without_openssl, without_python_messages
share_dataclass_methods()
from cri_proxy.cli.help.parser import command_parser, load_command
run = load_command("run")
args = command_parser("run", run).parse_args(["--config", sys.argv[1]])
load_yaml_of_c()
with without_openssl():
    settings = run.settings_from(args)
    run.fork_launcher().close()
    from cri_proxy.daemon import app
app.relay_of(settings.config.relay)
log = app.configure_logging("info", "auto")
with without_python_messages():
    import cri_proxy.daemon.engine
import cri_proxy.metrics.process
"""
UNUSED = """
ssl _ssl _hashlib http.server wsgiref email xml psutil watchdog structlog prometheus_client grpc shutil bz2 lzma
tempfile uuid platform difflib tomllib tracemalloc google.protobuf.internal.python_message google.protobuf.text_format
google.protobuf.json_format cri_proxy.simulate cri_proxy.doctor cri_proxy.extender cri_proxy.runtime.embedded
cri_proxy.kubelet.device_plugin yaml.scanner yaml.parser yaml.emitter sysfs.descriptions sysfs.archives
sysfs.show.outline sysfs.show.picture sysfs.show.as_json
"""


def test_a_daemon_loads_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("log: {level: info}")
    shown = f"print([name for name in {UNUSED.split()} if name in sys.modules])"
    program = [sys.executable, "-c", f"{LOADING}\n{shown}", str(tmp_path / "c.yaml")]
    assert subprocess.run(program, check=True, capture_output=True, text=True).stdout == "[]\n"


def test_messages_of_c_do_without_those_of_python_and_whoever_wants_these_gets_them() -> None:
    """``json_format`` uses modules that only the ones in Python have loaded before."""
    loading = "from cri_proxy.daemon.memory import without_python_messages\nwith without_python_messages():\n  "
    loading += "from cri_proxy.cri.proto import cri_v1_pb2 as pb\n"
    used = "read = pb.Container.FromString(pb.Container(id='a', labels={'b': 'c'}).SerializeToString())\n"
    used += "from google.protobuf.json_format import MessageToDict\n"
    used += "from google.protobuf.internal import python_message\n"
    shown = "print(MessageToDict(read), hasattr(python_message, 'GeneratedProtocolMessageType'))"
    assert output(loading + used + shown) == "{'id': 'a', 'labels': {'b': 'c'}} True\n"


COLLECTED = """
import gc
from dataclasses import dataclass
from cri_proxy.daemon.memory import collect_while_loading

def made():
    for _ in range(2000):
        @dataclass(slots=True)
        class Made:
            x: int

def left():
    return sum(isinstance(each, type) and each.__name__ == "Made" for each in gc.get_objects())

for is_enabled in (True, False):
    gc.collect()
    (gc.enable if is_enabled else gc.disable)()
    usual = gc.get_threshold()
    with collect_while_loading():
        made()
        few = left() < 500
    print(few, gc.isenabled() is is_enabled, gc.get_threshold() == usual)
"""


def test_what_loading_leaves_is_freed_meanwhile_and_the_collector_is_as_before() -> None:
    assert output(COLLECTED) == "True True True\nTrue True True\n"


YAML = """
import yaml
from cri_proxy.bounded_yaml import Dialect, YamlError, parse_tree, plain
for text in ("a: [1, 'x', {b: null}]", "a: [1", "a: \\t b: c", "a: b: c", "x: !!python/none 1", "a: \\x01"):
    try:
        print(plain(parse_tree(text, Dialect(1000, 9, 99))), yaml.safe_load(text))
    except (YamlError, yaml.YAMLError) as error:
        print(type(error).__name__, error)
print(yaml.safe_dump({"a": [1, "x: y"], "b": {"c": None}}), issubclass(yaml.scanner.ScannerError, yaml.YAMLError))
"""
OF_C = "from cri_proxy.daemon.memory import load_yaml_of_c\nload_yaml_of_c()\n"


def test_yaml_of_c_does_what_all_of_yaml_does() -> None:
    used = YAML.replace("yaml.scanner.", "__import__('yaml.scanner').scanner.")
    assert (
        output(OF_C + used) == output(used.replace("yaml.safe_load(text)", "yaml.load(text, yaml.CSafeLoader)")) != ""
    )
    assert output(f"{OF_C}{used}import sys; print([n for n in ('yaml.parser', 'yaml.emitter') if n in sys.modules])")


def test_without_libyaml_all_of_yaml_is_loaded() -> None:
    hidden = "import sys\nsys.modules['yaml._yaml'] = None\n"
    assert output(hidden + OF_C + YAML) == output(hidden + YAML) != ""
