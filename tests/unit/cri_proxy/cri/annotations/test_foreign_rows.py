import json

import pytest

from cri_proxy.cri.amounts import figures_of
from cri_proxy.cri.annotations.device_resources import OF_KOORDINATOR
from cri_proxy.cri.annotations.exact_resources import KEYS, Sent, exact_figures
from cri_proxy.cri.annotations.foreign_rows import FOREIGN_TABLE, ForeignAnnotation
from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.annotations.rules import parse_restriction
from cri_proxy.cri.annotations.values import ReadText
from cri_proxy.cri.claim import of_annotation
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import QosClass
from policies.devices import DEVICE_ALLOCATED, AnnotationError, read_annotations
from tests.unit.policies.build import request

GIB = 1 << 30
# 1500m, limited to 2 CPUs, and a tenth of the node's memory
RESOURCES = pb.LinuxContainerResources(cpu_shares=1536, cpu_quota=200_000, cpu_period=100_000, oom_score_adj=900)
SENT = Sent(QosClass.BURSTABLE, RESOURCES, figures_of(QosClass.BURSTABLE, RESOURCES, 10 * GIB), 10 * GIB)


def problem_of(row: ForeignAnnotation, text: str) -> str:
    """What is wrong with this value where the annotation is read."""
    if row.key == RESOURCE_STATUS:
        return "".join(map(str, of_annotation(text, request("p/c0", 4000)).problems))
    if row.key in (*OF_KOORDINATOR, DEVICE_ALLOCATED):
        try:
            read_annotations({row.key: text})
        except AnnotationError as error:
            return str(error)
        return ""
    return exact_figures({row.key: ReadText.of(text)}, "c0", SENT).problem


def test_every_key_of_others_that_counts_has_a_row() -> None:
    assert {row.key for row in FOREIGN_TABLE} == {RESOURCE_STATUS, DEVICE_ALLOCATED, *KEYS, *OF_KOORDINATOR}


@pytest.mark.parametrize("row", FOREIGN_TABLE, ids=lambda row: row.key)
def test_every_example_of_a_row_is_understood_and_its_bad_one_is_not(row: ForeignAnnotation) -> None:
    assert [problem_of(row, example) for example in row.examples] == [""] * len(row.examples)
    assert all(json.loads(text) for text in row.examples)
    assert problem_of(row, row.bad_example)


@pytest.mark.parametrize("row", FOREIGN_TABLE, ids=lambda row: row.key)
def test_what_takes_something_from_others_can_be_restricted_and_nothing_else(row: ForeignAnnotation) -> None:
    try:
        keys = parse_restriction(f"keys={row.key} namespaces=").keys
    except ValueError:
        keys = ()
    assert keys == ((row.stands_for,) if row.takes else ())
