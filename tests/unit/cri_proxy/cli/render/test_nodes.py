from cri_proxy.cli.render.nodes import fleet_text
from cri_proxy.simulate.nodes import MovedInFleet, NodeChange


def test_only_nodes_that_change_have_a_line() -> None:
    moved = tuple(MovedInFleet(f"d/p{number}/c", "CPUs 1", "CPUs 2") for number in range(5))
    found = [NodeChange("a", 9), NodeChange("b", 9, moved=moved, narrowed=2), NodeChange("c", 9, "x" * 900)]
    lines = fleet_text(found).splitlines()
    assert lines[0] == (
        "b: 5 of 9 containers move, 2 get other shared CPUs; d/p0/c CPUs 1 -> CPUs 2; d/p1/c CPUs 1 -> CPUs 2; "
        "d/p2/c CPUs 1 -> CPUs 2; 2 more"
    )
    assert lines[1].startswith("c: no: xxx")
    assert len(lines[1]) < 220
    assert lines[2] == "3 nodes: 1 change, 1 cannot take it"
