from dataclasses import replace

from cri_proxy.cli.render.ranking import render_ranking
from cri_proxy.node.status.decision_views import FieldView
from cri_proxy.state.decisions import RankedPool
from policies.topology_aware import MEANINGS
from policies.topology_aware.keys.score import Key
from tests.fakes.views import decision_record, explanation, ranked


def table(*pools: RankedPool, considered: int = 0, width: int = 80) -> list[str]:
    fields = tuple(FieldView(name, MEANINGS.get(name, ""), "") for name, _ in pools[0].key) if pools else ()
    record = replace(decision_record(), ranking=pools, pools_considered=considered)
    view = replace(explanation(), decision=record, fields=fields)
    return render_ranking(view, colours=False, width=width)


def test_without_a_ranking_there_is_no_table() -> None:
    assert table() == []


def test_a_pool_that_could_not_be_had_says_what_was_missing() -> None:
    assert table(
        ranked("a", "chosen", fits=1, left=5),
        ranked("b", "not tried", "would have less left", fits=1, left=4),
        ranked("c", "too small: 0m free", "cannot give what is asked", fits=0, left=9),
    )[:4] == [
        "  pool  fits  left  outcome",
        "  a     1     5     chosen",
        "  b     1     4     would have less left",
        "  c     0     9     too small: 0m free",
    ]


def test_only_fields_that_decided_are_shown_and_explained() -> None:
    lines = table(ranked("a", "chosen", fits=1, depth=2, left=5), ranked("b", "", "is larger", fits=1, depth=1, left=9))
    assert lines[0] == "  pool  depth  outcome"
    assert lines[-1] == "  depth  deeper pools are smaller and closer"


def test_a_long_ranking_is_cut_but_for_the_chosen_one() -> None:
    pools = [ranked(f"p{i}", "chosen" if i == 14 else "not tried", fits=1, left=-i) for i in range(16)]
    lines = table(*pools, considered=300)
    assert [line.split()[0] for line in lines[1:14]] == [*(f"p{i}" for i in range(12)), "p14"]
    assert lines[14] == "  ... and 287 more"


def test_no_line_is_longer_than_the_terminal() -> None:
    values = {name: i * 1000.0 for i, name in enumerate(Key._fields)}
    pools = [
        ranked(f"NUMA node #{i}/L3 #{i}", "too small: 0m free, of which 0 CPUs can be owned", **{**values, name: -i})
        for i, name in enumerate(Key._fields)
    ]
    assert max(map(len, table(*pools))) <= 80
    assert max(map(len, table(*pools, width=160))) <= 160
