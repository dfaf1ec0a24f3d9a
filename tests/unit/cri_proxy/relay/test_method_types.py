"""The list of known methods says of each what our own .proto says."""

from cri_proxy.cri.proto import cri_v1_pb2
from cri_proxy.relay.method_types import SERVER_STREAMS, UNARY, _paths


def test_known_methods_are_unary_or_streams_never_both() -> None:
    assert not UNARY & SERVER_STREAMS


def test_methods_of_our_proto_are_known_by_their_shape() -> None:
    for service in cri_v1_pb2.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            path = f"/{service.full_name}/{method.name}"
            assert path in (SERVER_STREAMS if method.server_streaming else UNARY)


def test_a_name_stands_for_the_path_of_its_service() -> None:
    assert _paths("Version Status", "ListImages") == {
        "/runtime.v1.RuntimeService/Version",
        "/runtime.v1.RuntimeService/Status",
        "/runtime.v1.ImageService/ListImages",
    }
