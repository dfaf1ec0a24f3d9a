import pytest

from policies.costs.link_text import LinkMatrix, nvlinks, read_links
from policies.costs.model import CostError
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
NODES = {"GPU0": NodeSet.of([0]), "GPU1": NodeSet.of([1])}


def both_ways(words: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    return words | {(other, one): word for (one, other), word in words.items()}


WORDS = both_ways({("GPU0", "GPU1"): "NV12", ("GPU0", "mlx5_0"): "PXB", ("GPU1", "mlx5_0"): "SYS"})
# As the tool prints it: an empty cell before the last column, and rows of NICs that go on with empty ones.
TABBED = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tPXB\t0-15,32-47\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t\t1\t\tN/A
NIC0\tPXB\tSYS\t X \t\t\t\t

NIC Legend:

  NIC0: mlx5_0
"""
TABS = "\n".join("\t".join(row.split()) for row in PLAIN.splitlines()[1:4])


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("GPU0    GPU1    NIC0", "\x1b[4mGPU0\x1b[0m    GPU1    \x1b[4mNIC0\x1b[0m"),
        PLAIN.replace("GPU0    GPU1    NIC0", "[4mGPU0    GPU1    NIC0[0m"),
        PLAIN.replace("NV12", "\x1b]8;;file:a\x07NV12\x1b]8;;\x1b\\\x1b(B"),
        PLAIN.replace("SYS", "SOC"),
        PLAIN.replace("\n", "    \n"),
        PLAIN.replace("0-15,32-47", "0-15, 32-47"),
        PLAIN.replace("NIC0: mlx5_0", "NIC0:\nmlx5_0"),
        PLAIN.replace("GPU1    NV12  ", "  MIG 1g.10gb  Device 0: (UUID: MIG-0)\nGPU1    NV12  "),
        TABBED,
        f"some line before\n{PLAIN}",
        f"\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n{TABS}\n  NIC0: mlx5_0",
    ],
)
def test_a_saved_matrix_is_read(text: str) -> None:
    assert read_links(text) == LinkMatrix(("GPU0", "GPU1"), ("mlx5_0",), WORDS, NODES)


def test_older_texts_name_nics_in_the_columns_and_have_no_nodes() -> None:
    text = "     GPU0 GPU1 mlx5_0 CPU Affinity\nGPU0 X NV1 PIX 0-9\nGPU1 NV1 X PHB 0-9\nmlx5_0 PIX PHB X\n"
    found = read_links(text)
    assert (found.nics, found.nodes) == (("mlx5_0",), {})
    assert found.words["GPU1", "mlx5_0"] == "PHB"


@pytest.mark.parametrize(("place", "nodes"), [("0-1", [0, 1]), ("N/A", []), ("", [])])
def test_a_gpu_may_be_alone_and_on_several_nodes_or_none(place: str, nodes: list[int]) -> None:
    found = read_links(f"\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t{place}\n")
    assert (found.gpus, found.words) == (("GPU0",), {})
    assert found.nodes == ({"GPU0": NodeSet.of(nodes)} if nodes else {})


def test_a_word_tells_the_number_of_nvlinks() -> None:
    assert [nvlinks(word) for word in ("NV1", "NV18", "PIX", "NVX", "NV0")] == [1, 18, 0, 0, 0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "GPU0: no such column; expected the text that nvidia-smi topo -m prints"),
        ("No devices were found", "GPU0: no such column"),
        (PLAIN.replace("PXB     0-15", "PXP     0-15"), "line 2: PXP: GPU0 to NIC0: expected one of PIX, PXB"),
        (PLAIN.replace("NV12    PXB", "NV0     PXB"), "line 2: NV0: GPU0 to GPU1: expected one of"),
        (PLAIN.replace("GPU1    NV12     X ", "GPU1    NV12    NV1"), "line 3: NV1: GPU1 to GPU1: expected X"),
        (
            PLAIN.replace("GPU1    NV12 ", "GPU1    NV6  "),
            "line 3: NV6: GPU1 to GPU0, and NV12 back; expected the same",
        ),
        (PLAIN.replace("NIC0    PXB     SYS      X", ""), "NIC0: the matrix has a column and no row of this name"),
        (PLAIN.replace("SYS      X", "SYS"), "line 4: NIC0: 2 words, expected one for each of 3 columns"),
        (PLAIN.replace("16-31           1 ", "16-31           x "), "line 3: x: expected NUMA nodes like 0 or 0-1"),
        (PLAIN.replace("GPU1    NIC0    CPU", "GPU0    NIC0    CPU"), "line 1: GPU0: a device stands twice"),
        (" ".join(f"GPU{n}" for n in range(257)), "line 1: GPU256: 257 devices; at most 256 are read"),
        (PLAIN.replace("mlx5_0", "GPU0"), "NIC0: the legend calls GPU0 GPU0, too; correct one"),
        (PLAIN.replace("mlx5_0", "mlx5/0"), "line 13: NIC0: expected its name in the legend, got 'mlx5/0'"),
        (PLAIN.replace("mlx5_0", "mlx5-0"), "line 13: NIC0: expected its name in the legend, got 'mlx5-0'"),
        (PLAIN.replace("mlx5_0\n", ""), "line 13: NIC0: expected its name in the legend, got ''"),
        (PLAIN + PLAIN, "line 14: GPU0: it has a row on line 2 already"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(CostError) as caught:
        read_links(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("=== ROCm System Management Interface ===\n  GPU0 GPU1\nGPU0 0 15\nGPU1 15 0\n", "line 1: ROCm System"),
        ("  GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n", "line 2: XGMI"),
        ("\nACCESS TABLE:\n 0000:0c:00.0\n0000:0c:00.0 ENABLED\n", "line 2: ACCESS TABLE"),
    ],
)
def test_a_text_of_amds_tools_is_told_as_such(text: str, named: str) -> None:
    with pytest.raises(CostError) as caught:
        read_links(text)
    assert str(caught.value).startswith(f"{named}")
    assert "this is of AMD's tools; expected the text of nvidia-smi topo -m" in str(caught.value)
