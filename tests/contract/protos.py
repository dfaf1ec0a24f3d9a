"""Regenerate protobuf modules and stubs by ``python -m tests.contract.protos``."""

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROTO = Path("cri_proxy/cri/proto/cri_v1.proto")
_OF_KUBELET = Path("cri_proxy/kubelet/proto")
PROTOS = (PROTO, _OF_KUBELET / "podresources_v1.proto", _OF_KUBELET / "deviceplugin_v1beta1.proto")


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


def main() -> int:
    """Regenerate in place and print the files written."""
    for name in generate(ROOT):
        sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
