import pytest

from cri_proxy.http2 import frames
from cri_proxy.relay.answers import Answers
from cri_proxy.relay.direction import Parts
from cri_proxy.relay.preface import OwnFrames
from tests.fakes.http2 import parse, status

RESET_AT_RUNTIME = [(frames.RST_STREAM, 0, 1, frames.CANCEL.to_bytes(4, "big"))]


def ends() -> tuple[Answers, Parts, Parts]:
    to_client: Parts = []
    to_runtime: Parts = []
    own = OwnFrames(to_client)
    own.open()
    return Answers(own, OwnFrames(to_runtime, is_greeted=True)), to_client, to_runtime


@pytest.mark.parametrize(("begun", "pseudo"), [(False, b"200"), (True, None)])
def test_a_status_is_written_as_a_reply_of_trailers_only_or_as_the_trailers_of_a_reply(
    begun: bool, pseudo: bytes | None
) -> None:
    answers, to_client, to_runtime = ends()
    answers.status(1, 9, "né", client_open=False, begun=begun)
    fields = status(to_client, 1)
    assert (fields[b"grpc-status"], fields[b"grpc-message"], fields.get(b":status")) == (b"9", b"n%C3%A9", pseudo)
    assert parse(to_runtime) == RESET_AT_RUNTIME
    assert (set(answers.runtime_ignored), set(answers.client_ignored)) == ({1}, set())


def test_a_client_that_has_not_sent_all_is_told_to_stop_and_the_rest_is_dropped() -> None:
    answers, to_client, _ = ends()
    answers.status(1, 9, "no", client_open=True)
    assert parse(to_client)[-1] == (frames.RST_STREAM, 0, 1, frames.NO_ERROR.to_bytes(4, "big"))
    assert set(answers.client_ignored) == {1}


@pytest.mark.parametrize("client_open", [True, False])
def test_a_call_that_was_not_processed_is_reset_on_both_sides(client_open: bool) -> None:
    answers, to_client, to_runtime = ends()
    answers.unseen(1, client_open=client_open)
    assert parse(to_client) == [(frames.RST_STREAM, 0, 1, frames.REFUSED_STREAM.to_bytes(4, "big"))]
    assert parse(to_runtime) == RESET_AT_RUNTIME
    assert set(answers.client_ignored) == ({1} if client_open else set())


def test_a_number_of_streams_is_remembered_and_the_oldest_is_forgotten_beyond_it() -> None:
    answers, *_ = ends()
    for stream in range(1, 20_001, 2):
        answers.status(stream, 9, "no", client_open=True)
    assert len(answers.client_ignored) == len(answers.runtime_ignored) < 10_000
    assert 19_999 in answers.client_ignored
    assert 1 not in answers.client_ignored


def test_the_last_4096_streams_are_remembered() -> None:
    answers, *_ = ends()
    for stream in range(1, 2 * 4096 + 1, 2):
        answers.ignore_client(stream)
    assert 1 in answers.client_ignored
    answers.ignore_client(9999)
    assert (1 in answers.client_ignored, 3 in answers.client_ignored) == (False, True)


@pytest.mark.parametrize("client_open", [True, False])
def test_a_call_whose_answer_is_on_its_way_is_reset_at_the_runtime_alone(client_open: bool) -> None:
    answers, to_client, to_runtime = ends()
    answers.none(1, client_open=client_open)
    assert (to_client, parse(to_runtime)) == ([], RESET_AT_RUNTIME)
    assert (set(answers.runtime_ignored), set(answers.client_ignored)) == ({1}, {1} if client_open else set())
