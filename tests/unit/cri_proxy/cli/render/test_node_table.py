from dataclasses import replace

from cri_proxy.cli.render.node_table import NodeRow, node_table, row_of
from cri_proxy.node.status.model import ConfigurationView
from tests.fakes.views import status_view

URL = "https://worker-1:8891"
READY = NodeRow("worker-1", URL, "ready", "0.1.0", "a" * 64, 12, 8)


def test_a_row_has_what_an_operator_compares() -> None:
    found = replace(
        status_view(),
        version="0.1.0",
        configuration=ConfigurationView("/etc/c", "", "b" * 64, 1.0),
        warnings=("store: full",),
        violations=("web owns CPU 2, dns uses it",),
        refused_count=2,
        is_ready=False,
    )
    row = row_of("worker-1", URL, found)
    assert (row.state, row.version, row.digest, row.free_cpus, row.largest_fit) == (
        "not ready",
        "0.1.0",
        "b" * 64,
        4,
        3,
    )
    assert row.problems == (
        "web owns CPU 2, dns uses it",
        "store: full",
        "refused in the last hour: 2 containers",
    )


def test_the_last_line_says_in_what_nodes_differ() -> None:
    other = replace(READY, name="worker-2", digest="c" * 64, state="not ready")
    away = NodeRow("worker-3", URL, "unreachable", problems=("no answer within 5 s",))
    assert node_table((READY, READY)).splitlines()[-1] == "2 nodes: 2 ready; one configuration; one version"
    assert node_table((READY, READY, other, away), width=200).splitlines()[-1] == (
        "4 nodes: 2 ready, 1 not ready, 1 unreachable; "
        "2 configurations: aaaaaaaaaaaa on 2, cccccccccccc on 1; one version"
    )


def test_of_several_problems_the_first_is_shown_and_how_to_see_the_others() -> None:
    shown = node_table((replace(READY, problems=("first", "second", "third")),), width=200)
    assert f"first (+2 more: status --url {URL})" in shown
    assert "second" not in shown
