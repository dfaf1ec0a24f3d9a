"""Views survive their way through JSON."""

import json

import pytest

from cri_proxy.http.view import DaemonView, ExplainView, Health, StatusView
from cri_proxy.state.codec import decode, encode
from tests.fakes.views import FixedDaemon, decision_view, status_view


@pytest.mark.parametrize("view", [status_view(), ExplainView((decision_view(),)), Health(True, False, ("x",))])
def test_a_view_survives_json(view: object) -> None:
    assert decode(type(view), json.loads(json.dumps(encode(view)))) == view


def test_an_older_command_reads_a_newer_daemons_status() -> None:
    plain = encode(status_view())
    assert isinstance(plain, dict)
    assert decode(StatusView, {**plain, "from_a_later_version": []}) == status_view()


def test_the_fake_is_a_daemon() -> None:
    view: DaemonView = FixedDaemon()
    assert view.health().is_ready
