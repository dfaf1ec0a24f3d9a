"""Views as JSON text."""

import json
from dataclasses import replace

import pytest

from cri_proxy.codec import encode
from cri_proxy.http.json_text import object_text, status_text
from cri_proxy.node.status.model import StatusView
from cri_proxy.slices import BUNCH, at_once
from tests.fakes.views import container, status_view


def status_of(containers: int) -> StatusView:
    """A status with so many containers, one of them with a name that is not ASCII."""
    shown = tuple(container(f"ü{i}", "shared", "1", notes=('a "note"',)) for i in range(containers))
    return replace(status_view(), containers=shown, warnings=tuple(f"warning {i}" for i in range(containers)))


@pytest.mark.parametrize("containers", [0, 1, BUNCH, BUNCH + 1, 3 * BUNCH])
def test_the_text_in_slices_is_that_of_the_whole(containers: int) -> None:
    status = status_of(containers)
    assert at_once(status_text(status)) == json.dumps(encode(status), ensure_ascii=False)


def test_plain_data_in_slices_is_the_same_as_in_one() -> None:
    plain: dict[str, object] = {"cpus": [{"id": i} for i in range(3 * BUNCH)], "online": "0-7", "notes": []}
    assert at_once(object_text(plain)) == json.dumps(plain)


def test_no_slice_writes_more_than_a_bunch() -> None:
    assert len(list(status_text(status_of(4 * BUNCH)))) >= 2 * 4
