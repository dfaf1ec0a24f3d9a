from pathlib import Path

from cri_proxy.simulate.nodes import NodeChange, changes_of
from tests.unit.cri_proxy.simulate.test_capture import STORY, captured

SAME = {"reservedResources": {"cpu": "1"}}


async def test_each_captured_node_says_what_a_configuration_changes(tmp_path: Path) -> None:
    await captured(tmp_path / "a.tar.xz")
    await captured(tmp_path / "b.tar.xz", STORY.replace("count: 2", "count: 3"))
    (tmp_path / "c.tar.xz").write_bytes(b"no archive")
    paths = [tmp_path / f"{name}.tar.xz" for name in "abc"]
    same = list(changes_of(paths, SAME))
    assert same[:2] == [NodeChange("a", 3), NodeChange("b", 4)]
    assert [each.is_change for each in same] == [False, False, True]
    assert "cannot be read as an archive" in same[2].problem
    first, second, _ = changes_of(paths, {"reservedResources": {"cpu": "cpuset:4-5"}})
    assert (first.problem, bool(first.moved)) == ("", True)
    assert "no room" in second.problem
