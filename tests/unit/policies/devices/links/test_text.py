import pytest

from policies.devices.links import Link, LinkError, LinkMatrix, MatrixGpu, MatrixNic, link_of, read_links
from sysfs.cpuset import NodeSet

PLAIN = """\
        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV12    PXB     0-15,32-47      0               N/A
GPU1    NV12     X      SYS     16-31           1               N/A
NIC0    PXB     SYS      X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""


def both_ways(links: dict[tuple[str, str], Link]) -> dict[tuple[str, str], Link]:
    return links | {(other, one): link for (one, other), link in links.items()}


LINKS = both_ways({("GPU0", "GPU1"): Link(12), ("GPU0", "NIC0"): Link(pcie="PXB"), ("GPU1", "NIC0"): Link(pcie="SYS")})
GPUS = (MatrixGpu(0, NodeSet.of([0]), "0-15,32-47"), MatrixGpu(1, NodeSet.of([1]), "16-31"))
# As the tool prints it: an empty cell before the last column, and rows of NICs that go on with empty ones.
TABBED = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tPXB\t0-15,32-47\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t16-31\t1\t\tN/A
NIC0\tPXB\tSYS\t X \t\t\t\t

NIC Legend:

  NIC0: mlx5_0
"""
TABS = "\n".join("\t".join(row.replace("N/A", "").split()) for row in PLAIN.splitlines()[1:4])


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("GPU0    GPU1    NIC0", "\x1b[4mGPU0\x1b[0m    GPU1    \x1b[4mNIC0\x1b[0m"),
        f"\x1b[4m{PLAIN}\x1b[0m",
        PLAIN.replace("GPU0    GPU1    NIC0", "[4mGPU0    GPU1    NIC0[0m"),
        PLAIN.replace("NV12", "\x1b]8;;file:a\x07NV12\x1b]8;;\x1b\\\x1b(B"),
        PLAIN.replace("SYS", "SOC"),
        PLAIN.replace("\n", "    \n"),
        PLAIN.replace("0-15,32-47", "0-15, 32-47"),
        PLAIN.replace("NIC0: mlx5_0", "NIC0:\nmlx5_0"),
        PLAIN.replace("GPU1    NV12  ", "  MIG 1g.10gb  Device 0: (UUID: MIG-0)\nGPU1    NV12  "),
        TABBED,
        f"GPU 0: A100 (UUID: GPU-1)\n  MIG 1g.10gb Device 0: (UUID: MIG-1)\n{PLAIN}",
        f"\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n{TABS}\n  NIC0: mlx5_0",
        PLAIN.replace("0               N/A", "0\t\tN/A"),
    ],
)
def test_a_saved_matrix_is_read(text: str) -> None:
    assert read_links(text) == LinkMatrix(GPUS, (MatrixNic("NIC0", "mlx5_0"),), LINKS)


def test_older_texts_name_nics_in_the_columns_and_have_no_nodes() -> None:
    text = "     GPU0 GPU1 mlx5_0 CPU Affinity\nGPU0 X NV1 PIX 0-9\nGPU1 NV1 X PHB 0-9\nmlx5_0 PIX PHB X\n"
    found = read_links(text)
    assert found.nics == (MatrixNic("mlx5_0", "mlx5_0"),)
    assert [(gpu.nodes, gpu.cpus) for gpu in found.gpus] == [(NodeSet(), "0-9")] * 2
    assert found.links["GPU1", "mlx5_0"] == Link(pcie="PHB")


def test_without_a_legend_a_nic_has_no_device() -> None:
    assert read_links(PLAIN.replace("  NIC0: mlx5_0", "")).nics == (MatrixNic("NIC0"),)


@pytest.mark.parametrize(("place", "nodes"), [("0-1", [0, 1]), ("N/A", []), ("", [])])
def test_a_gpu_may_be_alone_and_on_several_nodes_or_none(place: str, nodes: list[int]) -> None:
    found = read_links(f"\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t{place}\n")
    assert (found.gpus, found.links) == ((MatrixGpu(0, NodeSet.of(nodes), "0-7"),), {})


def test_only_tabs_tell_which_place_is_blank() -> None:
    """The tool writes two tabs behind a short node, so tabs are counted only where a word is missing."""
    head = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    assert read_links(f"{head}GPU0\t X \t\t1\tN/A\n").gpus == (MatrixGpu(0, NodeSet.of([1])),)
    assert read_links(f"{head}GPU0\t X \t0-7\t1\t\tN/A\n").gpus == (MatrixGpu(0, NodeSet.of([1]), "0-7"),)
    assert read_links(f"{head}GPU0\t X \tN/A\tN/A\t\tN/A\n").gpus == (MatrixGpu(0),)


def test_a_node_may_have_nics_and_no_gpu_or_neither() -> None:
    assert read_links("NIC0 NIC1\nNIC0 X PIX\nNIC1 PIX X\n").gpus == ()
    assert read_links("No devices were found\n") == LinkMatrix((), (), {})


def test_numbers_of_gpus_may_have_gaps() -> None:
    found = read_links("GPU0 GPU7\nGPU0 X SYS\nGPU7 SYS X")
    assert found.indices == {0, 7}
    assert (found.link(7, 0), found.link(0, 3)) == (Link(pcie="SYS"), Link())


def test_a_pair_may_be_unknown() -> None:
    assert read_links("GPU0 GPU1\nGPU0 X N/A\nGPU1 - X").link(0, 1) == Link()


def test_a_word_tells_the_link() -> None:
    found = [link_of(word) for word in ("NV1", "NV36", "PIX", "PSB", "SOC", "NVX", "NV0", "pix", "X")]
    assert found == [Link(1), Link(36), Link(pcie="PIX"), Link(pcie="PSB"), Link(pcie="SYS"), None, None, None, None]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "GPU0: no such column; expected the text that nvidia-smi topo -m prints"),
        ("GPU0 has fallen off the bus", "line 1, column 1: GPU0: the matrix has a column and no row"),
        (
            PLAIN.replace("PXB     0-15", "PXP     0-15"),
            "line 2, column 25: PXP: GPU0 to NIC0: expected one of PSB, PIX, PXB",
        ),
        (PLAIN.replace("NV12    PXB", "NV0     PXB"), "line 2, column 17: NV0: GPU0 to GPU1: expected one of"),
        (
            PLAIN.replace("GPU1    NV12     X ", "GPU1    NV12    NV1"),
            "line 3, column 17: NV1: GPU1 to GPU1: expected X",
        ),
        (
            PLAIN.replace("GPU1    NV12 ", "GPU1    NV6  "),
            "line 3, column 9: NV6: GPU1 to GPU0, and NV12 back; expected the same",
        ),
        (
            PLAIN.replace("NIC0    PXB     SYS      X", ""),
            "line 1, column 25: NIC0: the matrix has a column and no row of this name",
        ),
        (PLAIN.replace("SYS      X", "SYS"), "line 4, column 1: NIC0: 2 words, expected one for each of 3 columns"),
        (
            PLAIN.replace("16-31           1 ", "16-31           x "),
            "line 3, column 49: x: expected NUMA nodes like 0 or 0-1",
        ),
        (PLAIN.replace("GPU1    NIC0    CPU", "GPU0    NIC0    CPU"), "line 1, column 17: GPU0: a device stands twice"),
        (
            " ".join(f"GPU{n}" for n in range(257)),
            "line 1, column 1683: GPU256: more than 256 devices; at most 256 are read",
        ),
        (PLAIN.replace("mlx5_0", "GPU0"), "NIC0: the legend calls it GPU0, which is taken; correct one"),
        (PLAIN.replace("mlx5_0\n", ""), "line 13, column 3: NIC0: expected its name in the legend, got ''"),
        (
            "GPU0 GPU1\nGPU2\nGPU0 X NV1\nSYS\nGPU1 NV1 X\nNV2\nGPU2 SYS NV2\nX",
            "line 7, column 1: GPU2: a row of no column",
        ),
        ("GPU0\nGPU1 GPU2\nGPU0 X\nNV1 SYS\nGPU1 NV1\nX NV2\n", "line 4, column 1: NV1: a row of no column"),
        (PLAIN + PLAIN, "line 14, column 9: GPU0: it has a row on line 2 already"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(LinkError) as caught:
        read_links(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "== ROCm System Management Interface ==\n  GPU0 GPU1\nGPU0 0 15\nGPU1 15 0\n",
            "line 1, column 4: ROCm System",
        ),
        ("  GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n", "line 2, column 8: XGMI"),
        ("\nACCESS TABLE:\n 0000:0c:00.0\n0000:0c:00.0 ENABLED\n", "line 2, column 1: ACCESS TABLE"),
    ],
)
def test_a_text_of_amds_tools_is_told_as_such(text: str, named: str) -> None:
    with pytest.raises(LinkError) as caught:
        read_links(text)
    assert str(caught.value).startswith(named)
    assert "this is of AMD's tools, and has no whole table of links; save what rocm-smi" in str(caught.value)


def test_a_row_above_the_columns_is_text_around_the_matrix() -> None:
    assert read_links("GPU0 X NV1\nGPU0 GPU1\nGPU0 X NV2\nGPU1 NV2 X").link(0, 1) == Link(2)


def test_columns_of_places_may_be_missing() -> None:
    assert read_links("GPU0 NUMA Affinity\nGPU0 X 1").gpus == (MatrixGpu(0, NodeSet.of([1])),)
    assert read_links("GPU0 CPU Affinity\nGPU0 X 0-3").gpus == (MatrixGpu(0, NodeSet(), "0-3"),)
    assert read_links("GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-3").gpus == (MatrixGpu(0, NodeSet(), "0-3"),)
    assert read_links("GPU0\nGPU0 X").gpus == (MatrixGpu(0),)


def test_an_error_behind_a_blank_place_names_its_column() -> None:
    head = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    with pytest.raises(LinkError, match="line 2, column 11: x: expected NUMA nodes"):
        read_links(f"{head}GPU0\t X \t\tx\tN/A")
    with pytest.raises(LinkError, match="line 2, column 13: x y: expected NUMA nodes"):
        read_links(f"{head}GPU0\t X \t\t  x y")


def test_256_devices_are_read() -> None:
    names = [f"GPU{i}" for i in range(256)]
    rows = [" ".join([one, *("X" if one == other else "SYS" for other in names), "0-3", "1"]) for one in names]
    found = read_links("\n".join([" ".join(names) + " CPU Affinity NUMA Affinity", *rows]))
    assert (len(found.gpus), found.gpus[255].cpus) == (256, "0-3")


def test_a_broken_legend_needs_the_name_on_the_next_line() -> None:
    with pytest.raises(LinkError, match="NIC0: expected its name in the legend, got 'not a name'"):
        read_links(PLAIN.replace("NIC0: mlx5_0", "NIC0:\n not a name"))
