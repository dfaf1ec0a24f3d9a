"""What both halves share, between each other: any bodies through any windows, in any pieces."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2 import frames
from cri_proxy.http2.client import CallEnded, ClientConnection, Message
from cri_proxy.http2.server import Requested, ServerConnection

MESSAGES = st.lists(st.binary(max_size=50) | st.integers(0, 200_000).map(bytes), min_size=1, max_size=8)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@settings(max_examples=40, deadline=None)
@given(MESSAGES, st.integers(200, 100_000), st.integers(1, 30_000))
def test_every_question_gets_its_answer(answers: list[bytes], size: int, window: int) -> None:
    client, server = ClientConnection(), ServerConnection()
    streams = [client.request(f"/m{n}", b"%d" % n, timeout_seconds=5) for n in range(len(answers))]
    client.receive(frames.settings([(frames.SETTINGS_INITIAL_WINDOW_SIZE, window)]))
    asked, got, ended = [], {}, []
    while (to_server := client.take_output()) + (to_client := server.take_output()):
        for part in pieces(to_server, size):
            for event in server.receive(part):
                assert isinstance(event, Requested)
                asked.append((event.method, event.message))
                server.reply(event.stream, answers[streams.index(event.stream)])
        for part in pieces(to_client, size):
            for each in client.receive(part):
                match each:
                    case Message():
                        got[each.stream] = each.message
                        client.credit(each.stream, each.window_bytes)
                    case CallEnded(failure=None):
                        ended.append(each.stream)
    assert asked == [(f"/m{n}", b"%d" % n) for n in range(len(answers))]
    assert [got[stream] for stream in streams] == answers
    assert sorted(ended) == streams
