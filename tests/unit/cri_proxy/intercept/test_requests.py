"""Bytes as messages."""

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import UnreadableRequest
from cri_proxy.intercept.requests import message_of


def test_bytes_are_read_as_the_request_that_they_are() -> None:
    asked = pb.StopContainerRequest(container_id="c", timeout=5)
    assert message_of(pb.StopContainerRequest, asked.SerializeToString()) == asked


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", b"\x0a\x01\xff"], ids=["no tag", "cut off", "no UTF-8"])
def test_bytes_that_are_none_are_named_with_the_method(data: bytes) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        message_of(pb.StopContainerRequest, data)
    assert caught.value.method == "StopContainer"
    assert caught.value.problem
