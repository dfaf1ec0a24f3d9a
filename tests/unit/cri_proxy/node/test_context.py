from cri_proxy.node.context import Signals


def test_what_one_node_reports_no_other_node_hears() -> None:
    one, other, heard = Signals(), Signals(), []
    for name, signals in (("one", one), ("other", other)):
        signals.room_freed.connect(lambda name=name: heard.append(name))  # type: ignore[misc]
    one.room_freed.send()
    assert heard == ["one"]
