from cri_proxy.cri.methods import BY_PATH, IMAGE, METHODS, RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb


def test_every_method_of_both_services_is_listed_once() -> None:
    assert len(METHODS) == len(BY_PATH) == 43
    assert {path.rpartition("/")[0] + "/" for path in BY_PATH} == {RUNTIME, IMAGE}


def test_a_method_has_its_messages() -> None:
    method = BY_PATH[RUNTIME + "CreateContainer"]
    assert (method.request, method.reply) == (pb.CreateContainerRequest, pb.CreateContainerResponse)
    assert not method.streams


def test_events_and_the_stream_lists_are_the_streams() -> None:
    streams = {m.name for m in METHODS if m.streams}
    assert streams == {n for n in (m.name for m in METHODS) if n.startswith("Stream")} | {"GetContainerEvents"}
