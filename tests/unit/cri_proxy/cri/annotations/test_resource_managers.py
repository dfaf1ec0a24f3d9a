from cri_proxy.cri.annotations.resource_managers import CPU_SHARED, OF_OTHERS, OF_PEERS
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import TABLE
from tests.fakes.annotations import parse_annotations


def test_a_key_of_another_manager_has_a_domain_of_its_own_or_no_row_here() -> None:
    assert {key.partition("/")[0] for key in (*OF_OTHERS, CPU_SHARED)}.isdisjoint(DOMAINS)
    assert OF_PEERS.isdisjoint(key for row in TABLE for key in row.keys)


def test_none_of_them_is_a_problem() -> None:
    known = {**{f"{DOMAINS[0]}/{key}": "x" for key in OF_PEERS}, **dict.fromkeys(OF_OTHERS, "x"), f"{CPU_SHARED}c": ""}
    assert parse_annotations(known, "c").problems == ()
