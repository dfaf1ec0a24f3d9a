import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.relay.direction import Parts
from cri_proxy.relay.preface import ClientPreface, OwnFrames
from cri_proxy.relay.splice import Splice
from tests.fakes.http2 import GREETING, parse, request
from tests.fakes.spliced import HOLD, OLD, wants

PING = frames.frame(frames.PING, 0, 0, bytes(8))
RESET = frames.rst_stream(1, frames.CANCEL)


def test_own_frames_follow_the_runtimes_settings_in_their_order() -> None:
    out: Parts = []
    own = OwnFrames(out)
    own.send(PING, RESET)
    assert out == []
    out.append(frames.settings([]))
    own.open()
    own.send(PING)
    assert out == [frames.settings([]), PING, RESET, PING]


def test_later_settings_send_nothing_twice() -> None:
    out: Parts = []
    own = OwnFrames(out)
    own.send(PING)
    own.open()
    own.open()
    assert out == [PING]


@pytest.mark.parametrize("is_greeted", [True, False])
def test_own_frames_follow_a_header_block_that_goes_on(is_greeted: bool) -> None:
    out: Parts = []
    own = OwnFrames(out, is_greeted=is_greeted)
    own.hold_back(True)
    own.send(PING)
    own.open()
    assert (out, own.is_open) == ([], False)
    own.hold_back(False)
    own.send(RESET)
    assert (out, own.is_open) == ([PING, RESET], True)


def test_frames_that_wait_for_the_end_of_a_header_block_are_bounded() -> None:
    own = OwnFrames([], is_greeted=True)
    for _ in range(3):  # what has been sent does not count
        own.hold_back(True)
        own.send(*[PING] * 150_000)
        own.check()
        own.hold_back(False)
    own.hold_back(True)
    own.send(*[PING] * 300_000)
    with pytest.raises(ProtocolError, match="within a frame or header block of the runtime"):
        own.check()


def test_delayed_frames_are_bounded() -> None:
    own = OwnFrames([])
    with pytest.raises(ProtocolError, match="before the SETTINGS of the runtime"):
        for _ in range(1_000_000):
            own.send(PING)
            own.check()
    own.open()
    own.check()


@pytest.mark.parametrize("size", [1, 23, 24, 25, 32, 33, 100])
def test_the_clients_preface_goes_on_in_any_chunks(size: int) -> None:
    out: Parts = []
    preface = ClientPreface(out)
    data = GREETING + PING
    rest = b""
    for start in range(0, len(data), size):
        chunk = data[start : start + size]
        rest += chunk if preface.is_over else preface.receive(chunk)
    assert (b"".join(out), rest, preface.is_over) == (frames.PREFACE, GREETING[24:] + PING, True)


@pytest.mark.parametrize("first", [PING, frames.settings_ack(), request(1, HOLD, b"x")])
@pytest.mark.parametrize("size", [1, 30, 1000])
def test_a_client_that_does_not_begin_with_settings_is_refused_before_any_frame_goes_on(
    first: bytes, size: int
) -> None:
    made = Splice(wants)
    with pytest.raises(ProtocolError, match="first frame"):
        for start in range(0, 1000, size):
            made.receive_from_client((frames.PREFACE + first)[start : start + size])
    assert b"".join(made.to_runtime) == frames.PREFACE


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/1.1\r\n\r\n"])
def test_a_client_that_does_not_begin_with_the_preface_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="preface"):
        for start in range(len(data)):
            ClientPreface([]).receive(data[start:])


@pytest.mark.parametrize("call", [request(1, HOLD, b"x"), request(1, OLD, b"x")], ids=["held", "refused"])
def test_a_first_call_of_the_relays_own_gets_no_frame_before_the_runtimes_settings(call: bytes) -> None:
    made = Splice(wants)
    made.receive_from_client(GREETING + call)
    made.refuse(1, 9, "no")
    made.goaway.ask()
    assert made.to_client == []
    made.receive_from_runtime(frames.settings([(frames.SETTINGS_MAX_CONCURRENT_STREAMS, 9)]))
    kinds = [kind for kind, *_ in parse(made.to_client)]
    assert kinds[0] == frames.SETTINGS
    assert {frames.WINDOW_UPDATE, frames.HEADERS, frames.GOAWAY} & set(kinds[1:]) >= {frames.HEADERS, frames.GOAWAY}
    assert kinds.count(frames.SETTINGS) == 1


def test_a_client_that_is_refused_without_end_while_the_runtime_is_silent_is_left() -> None:
    made = Splice(wants)
    made.receive_from_client(GREETING)
    with pytest.raises(ProtocolError, match="before the SETTINGS of the runtime"):
        for stream in range(1, 200_000, 2):
            made.receive_from_client(request(stream, OLD, b""))


def test_frames_are_delayed_up_to_a_bound_each_time() -> None:
    out: Parts = []
    own = OwnFrames(out)
    for _ in range(2):
        own.send(bytes(4 << 20))
        own.check()
        assert own.has_delayed is True
        own.send(b"x")
        with pytest.raises(ProtocolError, match="answers of 4194305 bytes"):
            own.check()
        own.open()
        own.hold_back(False)
        assert own.has_delayed is False
        own.hold_back(True)


def test_the_end_of_a_block_does_not_stand_for_the_settings() -> None:
    out: Parts = []
    own = OwnFrames(out)
    own.hold_back(True)
    own.hold_back(False)
    own.send(b"frame")
    assert out == []


def test_the_first_settings_of_a_client_may_have_flags_that_say_nothing() -> None:
    out: Parts = []
    preface = ClientPreface(out)
    rest = preface.receive(frames.PREFACE + frames.frame(frames.SETTINGS, 0x2, 0))
    assert (rest, preface.is_over) == (frames.frame(frames.SETTINGS, 0x2, 0), True)
