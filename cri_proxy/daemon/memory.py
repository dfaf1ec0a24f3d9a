"""Keep a process small: load no OpenSSL, no second protobuf or YAML parser, leave no gaps, share dataclass methods."""

import dataclasses
import gc
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from reprlib import recursive_repr
from types import ModuleType
from typing import Any, ClassVar, Final, Protocol


class FrozenInstance(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, "dataclasses.Field[Any]"]]


def share_dataclass_methods() -> None:
    """Give the dataclasses that are made from here on the same five methods, which do as those of Python: 4 MB.

    Python compiles each of them for each of 500 classes, and those that refuse to change a field hold on to a copy of
    their class. Most classes are never compared or hashed: those that are get methods of their own then.
    """
    if sys.version_info < (3, 13):  # later ones have other functions here
        dataclasses._frozen_get_del_attr = _refusals  # type: ignore[attr-defined]
        dataclasses._repr_fn = lambda fields, scope: _repr  # type: ignore[attr-defined]
        dataclasses._create_fn = _create_late  # type: ignore[attr-defined]


def _refusals(cls: type, fields: object, scope: object) -> tuple[Callable[..., None], Callable[..., None]]:
    return _set_field, _delete_field


@recursive_repr()
def _repr(value: FrozenInstance) -> str:
    shown = (f"{field.name}={getattr(value, field.name)!r}" for field in dataclasses.fields(value) if field.repr)
    return f"{type(value).__qualname__}({', '.join(shown)})"


def _set_field(value: FrozenInstance, name: str, new: object) -> None:
    _refuse("assign to", value, name)
    object.__setattr__(value, name, new)


def _delete_field(value: FrozenInstance, name: str) -> None:
    _refuse("delete", value, name)
    object.__delattr__(value, name)


_repr.__name__, _set_field.__name__, _delete_field.__name__ = "__repr__", "__setattr__", "__delattr__"


def _refuse(change: str, value: FrozenInstance, name: str) -> None:
    """Raise FrozenInstanceError unless this is an attribute that a class adds which is no dataclass itself."""
    if "__dataclass_params__" in vars(type(value)) or name in value.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot {change} field {name!r}")


# As Python has it before 3.13: name, parameters, lines of the body.
_create: Final[Callable[..., Callable[..., object]]] = vars(dataclasses).get("_create_fn", _refuse)


def _create_late(name: str, *args: object, **words: object) -> Callable[..., object]:
    return _LATE.get(name) or _create(name, *args, **words)


def _eq(value: FrozenInstance, other: object) -> object:
    return _made(_eq, type(value))(value, other)


def _hash(value: FrozenInstance) -> object:
    return _made(_hash, type(value))(value)


_eq.__name__, _hash.__name__ = "__eq__", "__hash__"
_LATE: Final = {function.__name__: function for function in (_eq, _hash)}


def _made(late: Callable[..., object], cls: type) -> Callable[..., object]:
    """Return the method that ``late`` stands for, which the class that has ``late`` gets in its place."""
    name = late.__name__
    owner = next((each for each in cls.__mro__ if vars(each).get(name) is late), None)
    if owner is None:  # another thread has made it meanwhile
        made: Callable[..., object] = getattr(cls, name)
        return made
    fields = dataclasses.fields(owner)
    if late is _eq:
        own, others = (_tuple_text(each, [field for field in fields if field.compare]) for each in ("self", "other"))
        body = ["if other.__class__ is self.__class__:", f"  return {own} == {others}", "return NotImplemented"]
        made = _create(name, ("self", "other"), body)
    else:
        hashed = [field for field in fields if (field.compare if field.hash is None else field.hash)]
        made = _create(name, ("self",), [f"return hash({_tuple_text('self', hashed)})"])
    made.__qualname__ = f"{owner.__qualname__}.{name}"
    setattr(owner, name, made)
    return made


def _tuple_text(value: str, fields: Sequence["dataclasses.Field[Any]"]) -> str:
    return f"({''.join(f'{value}.{field.name}, ' for field in fields)})"


# Of new objects that can be part of a cycle; and a number of collections that is never reached.
_LOADING: Final = (2000, 1_000_000)


@contextmanager
def collect_while_loading() -> Iterator[None]:
    """Free what loading leaves before the next module is loaded, which takes its place: 1.3 MB, and 0.6 in helpers.

    That is the class for which a dataclass with slots is a replacement, 5 KB each. Only what is new is looked at, once:
    this costs no more time than one collection at the end.
    """
    usual, was_enabled = gc.get_threshold(), gc.isenabled()
    gc.set_threshold(*_LOADING)
    gc.enable()
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        if not was_enabled:
            gc.disable()


@contextmanager
def without_openssl() -> Iterator[None]:
    """Keep asyncio and hashlib, which are loaded meanwhile, from loading OpenSSL: 5 MB, and all sockets are local.

    What imports it later gets it.
    """
    names = ["ssl"]
    # Where Python was built without hashes of its own, hashlib needs those of OpenSSL.
    with suppress(ImportError):
        importlib.import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256")
        names.append("_hashlib")
    absent = [name for name in names if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment] # as if it were not installed
    try:
        yield
        for name in ("asyncio", "hashlib"):
            importlib.import_module(name)
    finally:
        for name in absent:
            del sys.modules[name]


@contextmanager
def without_python_messages() -> Iterator[None]:
    """Keep protobuf, which is loaded meanwhile, from loading its messages in Python, where it has those in C: 0.8 MB.

    It imports them in either case, and uses one of the two. What imports them later gets them.
    """
    name, implementation = "google.protobuf.internal.python_message", "google.protobuf.internal.api_implementation"
    is_needed = name in sys.modules or importlib.import_module(implementation).Type() == "python"
    if not is_needed:
        sys.modules[name] = ModuleType(name)
    try:
        yield
    finally:
        if not is_needed:
            del sys.modules[name]


# The modules of PyYAML that do in Python what libyaml does: what else it takes from each, and the error's class above.
_YAML_IN_PYTHON: Final = {
    "scanner": ("Scanner", "MarkedYAMLError"),
    "parser": ("Parser", "MarkedYAMLError"),
    "emitter": ("Emitter", "YAMLError"),
}


class _StandIn(ModuleType):
    """One of these modules with its names alone; PyYAML makes loaders of them that are not used."""

    def __getattr__(self, name: str) -> type:
        """Make the class, or the error that libyaml raises, at the first use: ``yaml.error`` is loaded then."""
        module = self.__name__.rpartition(".")[2]
        known, base = _YAML_IN_PYTHON[module]
        if name not in (known, f"{known}Error"):
            raise AttributeError(name)
        bases = (getattr(sys.modules["yaml.error"], base),) if name.endswith("Error") else ()
        made = type(name, bases, {"__module__": self.__name__})
        setattr(self, name, made)
        setattr(sys.modules["yaml"], module, self)  # as its import would, and as libyaml's module looks for it
        return made


def load_yaml_of_c() -> None:
    """Load PyYAML without its parser and emitter in Python, where it has libyaml: 2 MB in the daemon and in helpers.

    Its plain names, as those that ``safe_load`` uses, are the classes of libyaml then. A module that is imported later
    is the real one.
    """
    if "yaml" in sys.modules:
        return
    names = [f"yaml.{module}" for module in _YAML_IN_PYTHON]
    for name, (known, _) in zip(names, _YAML_IN_PYTHON.values(), strict=True):
        sys.modules[name] = module = _StandIn(name)
        vars(module)["__all__"] = [known, f"{known}Error"]
    yaml = importlib.import_module("yaml")
    for name in names:
        del sys.modules[name]
        delattr(yaml, name.rpartition(".")[2])
    if not yaml.__with_libyaml__:
        for name in [name for name, module in sys.modules.items() if module and name.partition(".")[0] == "yaml"]:
            del sys.modules[name]  # the next import loads all of it
        return
    for name in (
        *(f"{kind}Loader" for kind in ("Base", "Safe", "Full", "Unsafe", "")),
        "BaseDumper",
        "SafeDumper",
        "Dumper",
    ):
        setattr(yaml, name, getattr(yaml, f"C{name}"))
