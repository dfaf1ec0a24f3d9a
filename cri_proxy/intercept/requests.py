"""A held request's bytes as the message that they are."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from cri_proxy.errors import UnreadableRequest

M = TypeVar("M", bound=Message)


def message_of(kind: type[M], data: bytes) -> M:
    """The request. Raises UnreadableRequest for bytes that are none: no fault of ours, the runtime refuses them too."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise UnreadableRequest(kind.DESCRIPTOR.name.removesuffix("Request"), str(error)) from error
