"""What ``version-9.db`` holds, as values of today.

The file was written by the program whose newest version that was, where the localities of a request were its
``hints``. It has the grants of ``version_8``, which are near their devices for the sake of annotations.
"""

from dataclasses import replace

from cri_proxy.state.decisions import DecisionRecord
from cri_proxy.state.rows import Row
from policies.base import Grant, Request
from tests.golden.stores import version_8

ORIGINS = (
    ("localities", "devices"),
    ("strict_locality", "cri-proxy.io/strict.topologyhints"),
    ("spread_by_locality", "cri-proxy.io/pick-resources-by-hints"),
)


def _request(request: Request) -> Request:
    """The request, with a label and a notice that look as the old names do."""
    return replace(
        request,
        pod=replace(request.pod, labels=(("hints", "strict_hints"),)),
        preferences=replace(
            request.preferences, strict_locality=True, spread_by_locality=False, notify=('"hints":["hints",',)
        ),
        origins=ORIGINS,
    )


def _grant(grant: Grant) -> Grant:
    return replace(grant, request=_request(grant.request))


def _row(row: Row) -> Row:
    displaced = tuple(replace(each, grant=_grant(each.grant)) for each in row.displaced)
    return replace(row, grant=_grant(row.grant), displaced=displaced)


def _record(record: DecisionRecord) -> DecisionRecord:
    return replace(record, request=_request(record.request))


ROWS = tuple(map(_row, version_8.ROWS))
DECISIONS = tuple(map(_record, version_8.DECISIONS))
