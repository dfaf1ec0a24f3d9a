import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as plugin_pb
from cri_proxy.kubelet.proto import podresources_v1_pb2 as resources_pb
from tests.contract.protos import PROTO, PROTOS, ROOT, generate

STAMPED = "# Protobuf Python Version: 7.35.1\nDomain.PUBLIC,\n    7,\n    35,\n    1,\n    '',\n"

INTERFACES = Path(__file__).parent / "interfaces"
SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}


# protoc stamps its own version into the Python file; another version of protoc is no change of the interface.
VERSION_STAMP = re.compile(r"^# Protobuf Python Version: .*\n|^    \d+,\n", re.MULTILINE)


def without_version(path: Path) -> str:
    return VERSION_STAMP.sub("", path.read_text()) if path.exists() else "missing"


def stale(root: Path = ROOT, protos: Sequence[Path] = PROTOS) -> tuple[Path, ...]:
    """The generated files that differ from what the .proto would give now."""
    with TemporaryDirectory() as fresh:
        names = generate(Path(fresh), root, protos)
        return tuple(name for name in names if without_version(root / name) != without_version(Path(fresh) / name))


def proto(root: Path, text: str) -> Path:
    (root / PROTO).parent.mkdir(parents=True)
    (root / PROTO).write_text(text)
    return root


def test_the_module_and_its_stub_are_written_beside_the_proto(tmp_path: Path) -> None:
    root = proto(tmp_path, 'syntax = "proto3"; package t.generate; message Cup {}')
    assert [(root / name).exists() for name in generate(root, root, [PROTO])] == [True, True]
    assert stale(root, [PROTO]) == ()


def test_a_proto_without_its_python_is_stale(tmp_path: Path) -> None:
    assert len(stale(proto(tmp_path, 'syntax = "proto3"; package t.generate;'), [PROTO])) == 2


def test_a_proto_that_does_not_parse_is_an_error(tmp_path: Path) -> None:
    root = proto(tmp_path, "message {")
    with pytest.raises(RuntimeError, match="protoc refused"):
        generate(root, root, [PROTO])


def test_another_version_of_the_generator_makes_no_difference() -> None:
    other = STAMPED.replace("35", "36").replace("    1,", "    2,")
    assert VERSION_STAMP.sub("", STAMPED) == VERSION_STAMP.sub("", other)


def _name(described: Descriptor | EnumDescriptor) -> str:
    return described.full_name.removeprefix(f"{described.file.package}.")


def _type(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        if field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[n] for n in ("key", "value"))
            return f"map<{_type(key)}, {_type(value)}>"
        return _name(field.message_type)
    if field.enum_type is not None:
        return _name(field.enum_type)
    return SCALARS[field.type]


def _field(field: FieldDescriptor) -> str:
    kind = _type(field)
    repeated = "repeated " if field.is_repeated and not kind.startswith("map<") else ""
    deprecated = " (deprecated)" if field.GetOptions().deprecated else ""
    return f"{field.name} {field.number} {repeated}{kind}{deprecated}"


def _enum(enum: EnumDescriptor) -> str:
    values = ", ".join(f"{v.name} {v.number}" for v in enum.values)
    return f"enum {_name(enum)}: {values}"


def _message(message: Descriptor) -> Iterator[str]:
    yield f"{message.name}: {', '.join(_field(f) for f in message.fields)}"
    for enum in message.enum_types:
        yield _enum(enum)


def _described(ours: FileDescriptor) -> Iterator[str]:
    for service in ours.services_by_name.values():
        yield f"service {service.name}"
        for method in service.methods:
            stream = "stream " if method.server_streaming else ""
            yield f"  {method.name}: {method.input_type.name} -> {stream}{method.output_type.name}"
    for enum in ours.enum_types_by_name.values():
        yield _enum(enum)
    for message in ours.message_types_by_name.values():
        yield from _message(message)


def _facts(name: str) -> set[str]:
    lines = (INTERFACES / name).read_text().splitlines()
    return {line.rstrip() for line in lines if line.strip() and not line.startswith(("#", "package "))}


def _fields(described: Iterable[str]) -> set[str]:
    """Each field of a message as a line of its own."""
    parted = (line.partition(": ") for line in described)
    return {f"{name}: {field}" for name, _, fields in parted for field in re.split(r", (?!\w+>)", fields)}


@pytest.mark.parametrize(
    ("ours", "facts"), [(pb.DESCRIPTOR, "cri-v1.txt"), (plugin_pb.DESCRIPTOR, "deviceplugin-v1beta1.txt")]
)
def test_our_proto_has_every_service_method_message_field_and_enum_of_the_interface_and_nothing_else(
    ours: FileDescriptor, facts: str
) -> None:
    assert {line.rstrip() for line in _described(ours)} == _facts(facts)


def test_all_that_our_proto_has_of_pod_resources_stands_in_the_interface() -> None:
    facts = _fields(_facts("podresources-v1.txt"))
    assert _fields(line.rstrip() for line in _described(resources_pb.DESCRIPTOR)) <= facts


def test_the_generated_files_are_what_the_proto_gives_now() -> None:
    assert stale() == ()


def test_a_changed_proto_is_noticed(tmp_path: Path) -> None:
    proto = tmp_path / PROTO
    proto.parent.mkdir(parents=True)
    text = (ROOT / PROTO).read_text()
    proto.write_text(re.sub(r"string version = 1;", "string version = 9;", text, count=1))
    for name in ("cri_v1_pb2.py", "cri_v1_pb2.pyi"):
        proto.with_name(name).write_text((ROOT / PROTO).with_name(name).read_text())
    assert PROTO.with_name("cri_v1_pb2.py") in stale(tmp_path, [PROTO])
