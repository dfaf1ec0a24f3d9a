from pathlib import Path

import pytest

from sysfs.descriptions.catalog import BY_NAME, CATALOG, Shape
from sysfs.descriptions.machine import describe
from sysfs.sources import load_machine

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "machines.md"


@pytest.mark.parametrize("shape", CATALOG, ids=lambda shape: shape.name)
def test_every_shape_is_a_machine_whose_l3_domains_are_whole_cores_of_one_node(shape: Shape) -> None:
    machine = load_machine(shape.name)
    assert machine == describe(shape.description())
    domains = [cache.cpus for cache in machine.caches if cache.level == 3]
    threads = len(machine.cores[0].cpus)
    for domain in domains:
        assert len(domain) == (shape.l3_cores or len(machine.online) // threads // len(domains)) * threads
        assert sum(not node.cpus.isdisjoint(domain) for node in machine.nodes) == 1 or not shape.l3_cores
        assert all(core.cpus <= domain or core.cpus.isdisjoint(domain) for core in machine.cores)


@pytest.mark.parametrize(
    ("name", "cpus", "nodes"),
    [
        ("dgx-a100", "48-63,176-191", 3),
        ("aws-m5.24xlarge", "0-23,48-71", 0),
        ("xeon-8480-2s-snc4", "14-27,126-139", 1),
        ("altra-q80-1s", "0-79", 0),
    ],
)
def test_a_shape_numbers_its_cpus_as_the_machine_does(name: str, cpus: str, nodes: int) -> None:
    assert str(load_machine(name).nodes[nodes].cpus) == cpus


@pytest.mark.parametrize(
    ("name", "distances"),
    [
        ("epyc-7763-2s", [10, 32]),
        ("epyc-9654-2s-nps4", [10, 12, 12, 12, 32, 32, 32, 32]),
        ("dgx-a100", [10, 12, 12, 12, 32, 32, 32, 32]),
        ("xeon-8480-2s", [10, 21]),
    ],
)
def test_two_packages_of_epyc_are_farther_apart_than_the_default(name: str, distances: list[int]) -> None:
    first, *_, last = load_machine(name).nodes
    assert [distance for _, distance in first.distances] == distances
    assert sorted(distance for _, distance in last.distances) == distances


def test_the_page_lists_every_shape_with_its_source() -> None:
    text = PAGE.read_text()
    for shape in CATALOG:
        assert f"| `{shape.name}` | {shape.text} | {shape.source} |" in text
    assert text.count("| `") == len(BY_NAME) == len(CATALOG)


def test_a_file_of_that_name_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dgx-a100").mkdir()
    with pytest.raises(Exception, match="dgx-a100"):
        load_machine("dgx-a100")
