from pathlib import Path

import pytest

from cri_proxy.in_force.symlinks import (
    DATA_LINK,
    directories_to_watch,
    is_directory,
    link_target,
    lookups_beneath,
    of_one_generation,
    steps,
)
from tests.fakes.kubelet_volume import KubeletVolume


def below(root: Path, path: Path) -> list[tuple[str, str]]:
    """The steps inside this directory, from there."""
    found = [(directory, name) for directory, name in steps(path) if directory.is_relative_to(root)]
    return [(str(directory.relative_to(root)), name) for directory, name in found]


def test_the_steps_lead_through_links_to_what_is_behind_them(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    (tmp_path / "relative").symlink_to("a/../a")
    (tmp_path / "absolute").symlink_to(tmp_path / "relative" / "b")
    ways = [(".", "absolute"), (".", "relative"), (".", "a"), (".", "a"), ("a", "b"), ("a/b", "file")]
    assert below(tmp_path, tmp_path / "absolute" / "file") == ways


def test_the_steps_end_where_nothing_is(tmp_path: Path) -> None:
    assert below(tmp_path, tmp_path / "etc" / "c.yaml") == [(".", "etc")]
    (tmp_path / "file").touch()
    assert below(tmp_path, tmp_path / "file" / "c.yaml") == [(".", "file")]


def test_a_circle_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert set(below(tmp_path, tmp_path / "loop")) == {(".", "loop")}


def test_names_of_one_directory_are_looked_up_together(tmp_path: Path) -> None:
    assert directories_to_watch([tmp_path / "a", tmp_path / "b" / "c"])[tmp_path] == {"a", "b"}


def test_what_is_no_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("gone")
    assert [link_target(tmp_path / name) for name in ("link", "missing", "x" * 300)] == [Path("gone"), None, None]
    assert [is_directory(path) for path in (tmp_path, tmp_path / "link", tmp_path / ("x" * 300))] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(("swaps", "looks"), [(0, 1), (1, 2), (3, 4), (30, 20)])
def test_it_is_looked_again_while_the_volume_is_swapped_and_not_for_ever(
    tmp_path: Path, swaps: int, looks: int
) -> None:
    volume = KubeletVolume(tmp_path)
    seen: list[str] = []

    def look() -> str:
        if len(seen) < swaps:
            volume.write({"file": f"text {len(seen)}"})
        seen.append((tmp_path / DATA_LINK / "file").read_text())
        return seen[-1]

    volume.write({"file": "before"})
    assert of_one_generation(tmp_path, look) == seen[-1]
    assert len(seen) == looks


def test_without_a_volume_one_look_is_enough(tmp_path: Path) -> None:
    seen: list[int] = []
    of_one_generation(tmp_path, lambda: seen.append(1))
    assert seen == [1]


def test_the_steps_of_a_relative_path_begin_where_they_are_told_to(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a/b")
    assert list(steps(Path("link"), tmp_path)) == [(tmp_path, "link"), (tmp_path, "a"), (tmp_path / "a", "b")]


@pytest.mark.parametrize("target", ["../other/file", "/{}/other/file", "../place/file", "inner/../../other/file"])
def test_nothing_outside_a_directory_is_looked_up_for_a_name_in_it(tmp_path: Path, target: str) -> None:
    for name in ("place/inner", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "place" / "link").symlink_to(target.format(tmp_path))
    found = lookups_beneath((tmp_path / "place", ["link"]))
    assert found[tmp_path] == {"place"}
    assert "link" in found[tmp_path / "place"]
    assert tmp_path / "other" not in found


def test_the_way_to_several_directories_and_on_inside_them_is_looked_up(tmp_path: Path) -> None:
    KubeletVolume(tmp_path / "volume").write({"a": "1"})
    (tmp_path / "link").symlink_to("volume")
    generation = tmp_path / "volume" / (tmp_path / "volume" / DATA_LINK).readlink()
    found = lookups_beneath((tmp_path / "link", ["a"]), (tmp_path / "later", ["b"]))
    assert found[tmp_path] == {"link", "volume", "later"}
    assert found[tmp_path / "volume"] == {"a", DATA_LINK, generation.name}
    assert found[generation] == {"a"}
