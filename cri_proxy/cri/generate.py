"""Regenerate protobuf modules and stubs by ``python -m cri_proxy.cri.generate`` (development); find stale ones."""

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROTO = Path("cri_proxy/cri/proto/cri_v1.proto")
_OF_KUBELET = Path("cri_proxy/kubelet/proto")
PROTOS = (PROTO, _OF_KUBELET / "podresources_v1.proto", _OF_KUBELET / "deviceplugin_v1beta1.proto")

# protoc stamps its own version into the Python file; another version of protoc is no change of the interface.
_VERSION_STAMP = re.compile(r"^# Protobuf Python Version: .*\n|^    \d+,\n", re.MULTILINE)


def generate(into: Path, root: Path = ROOT, protos: Sequence[Path] = PROTOS) -> tuple[Path, ...]:
    """Write the message modules and their type stubs below ``into``; return their paths relative to it.

    Each .proto is taken from ``root``. Raises RuntimeError when protoc refuses it, ModuleNotFoundError
    without grpcio-tools.
    """
    from grpc_tools import protoc  # type: ignore[import-untyped]  # ships no stubs

    written: list[Path] = []
    for proto in protos:
        status = protoc.main(["protoc", f"-I{root}", f"--python_out={into}", f"--pyi_out={into}", str(root / proto)])
        if status:
            raise RuntimeError(f"protoc refused {proto} with status {status}: its own words are on standard error")
        written += [proto.with_name(f"{proto.stem}_pb2{suffix}") for suffix in (".py", ".pyi")]
    return tuple(written)


def without_version(text: str) -> str:
    """Return generated text without the stamp of the generator's version, for comparing."""
    return _VERSION_STAMP.sub("", text)


def stale(root: Path = ROOT, protos: Sequence[Path] = PROTOS) -> tuple[Path, ...]:
    """Return the generated files that differ from what the .proto would give now."""
    with tempfile.TemporaryDirectory() as fresh:
        names = generate(Path(fresh), root, protos)
        return tuple(
            name
            for name in names
            if not (root / name).exists()
            or without_version((root / name).read_text()) != without_version((Path(fresh) / name).read_text())
        )


def main() -> int:
    """Regenerate in place and print the files written."""
    for name in generate(ROOT):
        sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
