"""``ThreadCounts``: what the thread counts in a container's environment follow."""

from enum import StrEnum


class ThreadCounts(StrEnum):
    """The figure that the thread counts in a container's environment follow."""

    NONE = "none"  # they are not set
    OWNED = "owned"  # the CPUs that it has alone
    REQUEST = "request"  # its CPU request, rounded up
