"""What a relay must keep (docs/transparency.md): each promise has a test that plays it through both relays.

The tests are found as pytest collects them, with their parameters, so that it does not matter how they are played.
"""

import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RELAYS = {"splice", "grpc"}

# Promise to a test that proves it, in tests/relay. More tests than these prove each of them.
PROMISES = {
    "request metadata": "test_transparency.py::test_request_metadata_arrives_and_nothing_else_does",
    "-bin metadata": "test_transparency.py::test_odd_values_of_metadata_arrive",
    "authority": "test_transparency.py::test_the_authority_is_that_of_the_client_not_a_path",
    "deadlines": "test_transparency.py::test_the_deadline_reaches_the_runtime",
    "no deadline": "test_transparency.py::test_no_deadline_stays_no_deadline",
    "cancellation of unary calls": "test_transparency.py::test_cancellation_reaches_the_runtime_and_no_other_call",
    "cancellation of streams": (
        "test_transparency.py::test_cancellation_reaches_the_runtime_in_the_middle_of_a_stream"
    ),
    "status codes, messages and details": (
        "test_transparency.py::test_every_status_arrives_with_its_message_and_details"
    ),
    "reply metadata and trailers": "test_transparency.py::test_reply_metadata_and_trailers_arrive",
    "16 MiB messages both ways": "test_transparency.py::test_16_mib_arrive_both_ways",
    "compressed messages": "test_transparency.py::test_compressed_messages_arrive_both_ways",
    "clients of one relay are apart": "test_transparency.py::test_clients_of_one_relay_do_not_see_each_other",
    "runtime restart under connections": (
        "test_transparency.py::test_a_runtime_restarts_under_streams_and_calls_and_everybody_finds_it_again"
    ),
    "100 calls in flight": "test_streams.py::test_100_calls_are_in_flight_together",
    "30 open event streams": "test_streams.py::test_30_open_streams_keep_nobody_waiting_and_go_on",
    "order of events": "test_streams.py::test_events_keep_their_order",
    "slow readers": "test_streams.py::test_a_slow_reader_slows_its_stream_and_loses_nothing",
    "unknown methods and services": "test_streams.py::test_an_unknown_method_converses_before_half_close",
    "half-closed streams": "test_streams.py::test_replies_go_on_after_the_client_has_half_closed",
    "PING": "test_connections.py::test_a_runtimes_ping_is_answered",
    "GOAWAY": "test_connections.py::test_a_runtime_that_leaves_ends_its_calls_and_new_ones_find_a_new_connection",
    "SETTINGS first": "test_other_clients.py::test_every_fresh_connection_of_curl_is_served_whatever_its_first_call",
    "SETTINGS changes": "test_connections.py::test_a_runtime_may_change_its_settings_while_calls_go_on",
    "tiny and huge windows": "test_connections.py::test_requests_go_through_a_runtimes_windows_of_any_size",
    "flow control of a rewritten request": (
        "test_connections.py::test_rewritten_requests_go_through_a_runtimes_windows_of_any_size"
    ),
    "large replies mixed with rewritten calls on one connection": (
        "test_interception.py::test_rewritten_calls_and_large_replies_share_a_connection"
    ),
    "long refusals": "test_long_refusals.py::test_a_long_refusal_ends_its_own_call_and_no_other",
    "never pass unread": "test_fail_closed.py::test_a_call_that_cannot_be_read_never_passes_unread",
    "refused calls": ("test_interception.py::test_a_refused_call_gets_its_status_and_never_a_message_at_the_runtime"),
    "HPACK is followed through refused calls": (
        "test_interception.py::test_after_a_refusal_the_connection_still_serves"
    ),
    "a held call holds its own stream only": "test_interception.py::test_held_calls_do_not_keep_others_waiting",
    "outcomes of held calls": "test_interception.py::test_the_outcome_is_known_before_the_client_has_the_reply",
    "v1alpha2 is UNIMPLEMENTED": (
        "test_interception.py::test_every_method_of_the_old_runtime_interface_is_unimplemented"
    ),
    "malformed frames close both sides and nothing else": (
        "test_malformed.py::test_a_malformed_frame_of_a_client_ends_its_connection_and_nothing_else"
    ),
    "image service on its own socket": "test_sockets.py::test_an_image_service_has_a_socket_of_its_own",
    "modes of sockets": "test_sockets.py::test_the_socket_has_the_owner_and_mode_of_the_runtimes",
}
# Tests of this folder that are not played through both relays, by file or by test, with the reason.
NOT_BOTH = {
    "test_promises.py": "this file",
    "test_relays_agree.py": "compares the relays with each other",
    "test_splice_between_h2_peers.py": "the splice without sockets, so that any order of events can be had",
    "test_splice_fuzz.py": "the splice's own state, byte by byte",
    "test_splice_limits.py": "the splice's own state, frame by frame",
    "test_connections.py::test_a_client_that_takes_nothing_off_its_socket_slows_the_runtime": (
        "grpcio cannot be stopped from reading, and its relay takes unary replies in whole"
    ),
    "test_malformed.py::test_a_malformed_frame_of_the_runtime_ends_its_connection_and_no_byte_of_it_passes": (
        "grpcio judges the runtime's frames itself"
    ),
    "test_malformed.py::test_replies_that_came_with_a_malformed_frame_of_the_runtime_but_before_it_arrive": (
        "grpcio judges the runtime's frames itself"
    ),
    "test_unreadable.py::test_a_held_request_that_is_not_one_message_is_refused": (
        "grpcio's server never answers a unary call without a message"
    ),
}


@cache
def collected() -> dict[str, set[str]]:
    """Every test of this folder, as ``file::test``, and the parameters that it is played with."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", "tests/relay"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in done.stdout.splitlines():
        if line.startswith("tests/relay/"):
            test, _, parameters = line.removeprefix("tests/relay/").partition("[")
            found[test] |= set(parameters.removesuffix("]").split("-"))
    return dict(found)


def is_excused(test: str) -> bool:
    return bool({test, test.partition("::")[0]} & NOT_BOTH.keys())


def test_every_promise_is_played_through_both_relays() -> None:
    tests = collected()
    assert {thing: test for thing, test in PROMISES.items() if not tests.get(test, set()) >= RELAYS} == {}


def test_every_conversation_is_played_through_both_relays_or_says_why_not() -> None:
    partly = {test for test, parameters in collected().items() if not parameters >= RELAYS}
    assert sorted(test for test in partly if not is_excused(test)) == []
    needed = partly | {test.partition("::")[0] for test in partly}
    assert sorted(NOT_BOTH.keys() - needed) == []


def test_the_page_names_every_promise() -> None:
    page = " ".join((ROOT / "docs" / "transparency.md").read_text().split())
    assert [thing for thing in PROMISES if thing not in page] == []
