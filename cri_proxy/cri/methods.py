"""List every CRI v1 method by gRPC path, with its request and reply classes, from the protobuf descriptors."""

from dataclasses import dataclass

from google.protobuf import message_factory
from google.protobuf.message import Message

from cri_proxy.cri.proto import cri_v1_pb2 as pb

RUNTIME = "/runtime.v1.RuntimeService/"
IMAGE = "/runtime.v1.ImageService/"


@dataclass(frozen=True, slots=True)
class Method:
    """One method: ``path`` as in gRPC's ``:path``, ``request`` and ``reply`` the classes of its messages."""

    path: str
    name: str
    request: type[Message]
    reply: type[Message]
    streams: bool  # the server answers with a stream; CRI has no client streams


def _methods() -> tuple[Method, ...]:
    return tuple(
        Method(
            path=f"/{service.full_name}/{method.name}",
            name=method.name,
            request=message_factory.GetMessageClass(method.input_type),
            reply=message_factory.GetMessageClass(method.output_type),
            streams=method.server_streaming,
        )
        for service in pb.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    )


METHODS: tuple[Method, ...] = _methods()
BY_PATH: dict[str, Method] = {m.path: m for m in METHODS}
