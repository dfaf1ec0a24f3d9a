from pathlib import Path

import pytest

from cri_proxy.cri.generate import PROTO, generate, stale, without_version

STAMPED = "# Protobuf Python Version: 7.35.1\nDomain.PUBLIC,\n    7,\n    35,\n    1,\n    '',\n"


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
    assert without_version(STAMPED) == without_version(STAMPED.replace("35", "36").replace("    1,", "    2,"))
