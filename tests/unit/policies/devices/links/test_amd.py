"""The link that AMD's type, hops, weight and bandwidth stand for."""

import pytest

from policies.devices.links import Link, pair_points, read_links
from tests.fakes.amd_texts import AmdMachine, amd_smi, rocm_smi


@pytest.mark.parametrize(
    ("kind", "hops", "weight", "bandwidth", "link"),
    [
        ("XGMI", "1", "15", "50000-50000", Link(xgmi=1)),
        ("XGMI", "1", "15", "50000-200000", Link(xgmi=4)),
        ("XGMI", "1", "13", "N/A", Link(xgmi=1)),
        ("XGMI", "1", "15", "0-0", Link(xgmi=1)),
        ("XGMI", "2", "30", "50000-100000", Link(xgmi=1, xgmi_hops=2)),
        ("XGMI", "N/A", "30", "N/A", Link(xgmi=1, xgmi_hops=2)),
        ("XGMI", "N/A", "13", "N/A", Link(xgmi=1)),
        ("XGMI", "N/A", "N/A", "N/A", Link(xgmi=1)),
        ("XGMI", "40", "600", "N/A", Link(xgmi=1, xgmi_hops=9)),
        ("PCIE", "2", "40", "N/A", Link(pcie="NODE")),
        ("PCIE", "3", "72", "N/A", Link(pcie="SYS")),
        ("PCIE", "N/A", "40", "N/A", Link(pcie="NODE")),
        ("PCIE", "N/A", "52", "N/A", Link(pcie="SYS")),
        ("PCIE", "N/A", "N/A", "N/A", Link(pcie="SYS")),
        ("UNKNOWN", "N/A", "N/A", "N/A", Link()),
        ("XXXX", "0", "0", "N/A", Link()),
    ],
)
def test_a_pair_has_one_link(kind: str, hops: str, weight: str, bandwidth: str, link: Link) -> None:
    told = AmdMachine((0, 0), lambda *_: kind, lambda *_: hops, lambda *_: weight, lambda *_: bandwidth)
    assert read_links(amd_smi(told)).link(0, 1) == link
    if bandwidth == "N/A":
        assert read_links(rocm_smi(told)).link(1, 0) == link


def test_xgmi_is_worth_more_than_any_path_of_pcie_by_links_and_hops() -> None:
    order = [Link(xgmi=4), Link(xgmi=1), *(Link(xgmi=1, xgmi_hops=hops) for hops in (2, 3, 4)), Link(pcie="PSB")]
    points = [pair_points(link) for link in order]
    assert points == sorted(points, reverse=True)
    assert len(set(points)) == len(points)
    assert pair_points(Link(xgmi=1)) == pair_points(Link(1))
