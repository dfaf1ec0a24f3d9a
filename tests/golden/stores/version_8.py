"""What ``version-8.db`` holds, as values of today.

The file was written by the program whose newest version that was, where a request asked for devices in two fields:
``devices`` by the types of cost files, ``allocation`` by resources. It has the grants of ``version_7``, each with the
annotations that it was read from.
"""

from dataclasses import replace

from cri_proxy.state.decisions import DecisionRecord
from cri_proxy.state.rows import Row
from policies.base import Grant, Pod
from tests.golden.stores import version_7

ORIGINS = (("devices.counts", "cri-proxy.io/device-request"), ("devices.requests", "cri-proxy.io/device-resources"))


def _pod(pod: Pod) -> Pod:
    """The pod, with a label that looks as the old origins do."""
    return replace(pod, labels=(("devices", "allocation"),))


def _grant(grant: Grant) -> Grant:
    return replace(grant, request=replace(grant.request, pod=_pod(grant.request.pod), origins=ORIGINS))


def _row(row: Row) -> Row:
    displaced = tuple(replace(each, grant=_grant(each.grant)) for each in row.displaced)
    return replace(row, grant=_grant(row.grant), displaced=displaced)


def _record(record: DecisionRecord) -> DecisionRecord:
    return replace(record, request=replace(record.request, pod=_pod(record.request.pod), origins=ORIGINS))


ROWS = tuple(map(_row, version_7.ROWS))
DECISIONS = tuple(map(_record, version_7.DECISIONS))
