from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut
from cri_proxy.relay.answers import Goaway
from cri_proxy.relay.direction import Parts
from cri_proxy.relay.preface import OwnFrames
from tests.fakes.http2 import parse

NOT_YET = frames.MAX_WINDOW_BYTES.to_bytes(4, "big") + bytes(4)


def asked() -> tuple[Goaway, Parts]:
    out: Parts = []
    own = OwnFrames(out)
    own.open()
    leaving = Goaway(own)
    leaving.ask()
    return leaving, out


def answers(leaving: Goaway, flags: int, body: bytes) -> bool:
    ping = frames.frame(frames.PING, flags, 0, body)
    cut: Cut = (frames.PING, flags, 0, 0, len(ping))
    return leaving.is_answer(ping, cut)


def test_the_first_word_gives_up_no_stream_and_asks_for_an_answer() -> None:
    _, out = asked()
    assert [frame[0] for frame in parse(out)] == [frames.GOAWAY, frames.PING]
    assert [frame[1:3] for frame in parse(out)] == [(0, 0), (0, 0)]  # no flags: a PING with one would be an answer
    assert parse(out)[0][3] == NOT_YET


def test_it_is_said_once_however_often_it_is_asked() -> None:
    leaving, out = asked()
    leaving.ask()
    assert len(out) == 2


def test_a_client_has_heard_when_it_answers_our_ping_and_no_other() -> None:
    leaving, out = asked()
    mark = parse(out)[1][3]
    assert not answers(leaving, frames.ACK, b"12345678")
    assert not answers(leaving, 0, mark)
    assert not answers(leaving, 0x2, mark)  # a flag that PING does not define means nothing (RFC 9113, 4.1)
    assert not leaving.is_answered
    assert answers(leaving, frames.ACK, mark)
    assert leaving.is_answered


def test_an_answer_to_a_question_that_we_did_not_ask_is_the_runtimes() -> None:
    _, out = asked()
    assert not answers(Goaway(OwnFrames([])), frames.ACK, parse(out)[1][3])


def test_the_last_word_names_the_latest_stream() -> None:
    leaving, out = asked()
    out.clear()
    leaving.finish(7, frames.FLOW_CONTROL_ERROR)
    assert parse(out) == [(frames.GOAWAY, 0, 0, b"\0\0\0\7\0\0\0\3")]
