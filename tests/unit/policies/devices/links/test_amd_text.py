"""The tables of rocm-smi and amd-smi are read as a whole, or refused with what is missing or wrong."""

from dataclasses import replace

import pytest

from policies.devices.links import Link, LinkError, MatrixGpu, read_links
from sysfs.cpuset import NodeSet
from tests.fakes.amd_texts import AmdMachine, amd_smi, islands, packages, rocm_smi

TWO = AmdMachine((0, 1), lambda *_: "XGMI", lambda *_: "1", lambda *_: "15")
ROCM, SMI = rocm_smi(TWO), amd_smi(TWO)


def links(text: str) -> dict[tuple[int, int], str]:
    """The words of the pairs, each once."""
    found = read_links(text)
    return {
        (one.index, other.index): found.link(one.index, other.index).word
        for one in found.gpus
        for other in found.gpus
        if one.index < other.index
    }


@pytest.mark.parametrize(
    "text",
    [
        ROCM,
        ROCM.replace("\n", "\r\n"),
        f"$ rocm-smi --showtopo\n{ROCM}\n$ \n",
        ROCM.replace("GPU[0]\t\t", "GPU 0          ").replace("GPU[1]\t\t", "GPU[1]          "),
        ROCM.replace("ROCm System", "\x1b[1mROCm System"),
        ROCM.replace("Affinity: 1", "Affinity: -1"),
        ROCM.replace("Affinity: 1", "Affinity: 4294967295"),
        ROCM.replace("Numa Node: 1", "Numa Node: 0"),
        "\n".join(line for line in ROCM.splitlines() if "Numa Node: 1" not in line),
    ],
)
def test_tables_of_rocm_smi_have_links_and_nodes(text: str) -> None:
    found = read_links(text)
    assert found.gpus == (MatrixGpu(0, NodeSet.of([0])), MatrixGpu(1, NodeSet.of([1])))
    assert (found.link(0, 1), found.link(1, 0), found.vendor) == (Link(xgmi=1), Link(xgmi=1), "amd")


@pytest.mark.parametrize("text", [SMI, f"{SMI}\nLegend:\n SELF = Current GPU\n", SMI.replace("\n\n", "\n")])
def test_tables_of_amd_smi_name_gpus_by_address(text: str) -> None:
    found = read_links(text)
    assert found.gpus == (MatrixGpu(0, address="0000:05:00.0"), MatrixGpu(1, address="0000:15:00.0"))
    assert found.link(0, 1) == Link(xgmi=1)


@pytest.mark.parametrize("bandwidth", ["0-0", "N/A", "AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"])
def test_bandwidths_that_a_driver_does_not_tell_are_those_of_one_link(bandwidth: str) -> None:
    """MI355X prints 0-0; the words of an error are longer than a column, and no space is left between two."""
    machine = replace(islands(4), bandwidth=lambda one, other: bandwidth)
    assert read_links(amd_smi(machine)).links == read_links(rocm_smi(islands(4))).links


def test_a_gpu_may_be_alone() -> None:
    alone = AmdMachine((1,), TWO.kind, TWO.hops, TWO.weight)
    assert read_links(rocm_smi(alone)).gpus == (MatrixGpu(0, NodeSet.of([1])),)
    assert read_links(amd_smi(alone)).links == {}


def test_pcie_beside_xgmi_is_of_the_same_socket_or_of_another() -> None:
    found = links(rocm_smi(islands()))
    assert {pair: word for pair, word in found.items() if word != "SYS"} == dict.fromkeys(
        ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 5), (4, 6), (4, 7), (5, 6), (5, 7), (6, 7)), "XGMI"
    )


def test_bandwidths_tell_how_many_links_a_pair_has() -> None:
    found = links(amd_smi(packages()))
    assert [found[0, other] for other in range(1, 8)] == ["XGMI4", "XGMI", "XGMI", "XGMI/2", "XGMI/2", "XGMI", "XGMI"]
    assert set(links(rocm_smi(packages())).values()) == {"XGMI", "XGMI/2"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            ROCM.replace("Hops between", "Hops betwen"),
            "Hops between two GPUs: the text has no such title, and is not whole; save all that rocm-smi --showtopo",
        ),
        (ROCM.replace("Numa Nodes", "Numas"), "Numa Nodes: the text has no such title"),
        (ROCM.replace("End of ROCm", "End"), "End of ROCm SMI Log: the text has no such title"),
        (SMI.partition("NUMA BW")[0], "NUMA BW: the text has no such title, and is not whole; save all that amd-smi"),
        (SMI.replace("LINK TYPE TABLE:", "LINKS:"), "LINK TYPE: the text has no such title"),
        (ROCM + ROCM, "line 26: Weight between two GPUs: it stands on line 3 already; keep one output"),
        (
            ROCM.replace("GPU1   15 ", "GPU1      "),
            "line 6, column 1: GPU1: 1 words, expected one for each of 2 columns",
        ),
        (
            ROCM.replace("GPU1   15 ", "GPUX   15 "),
            "line 6, column 1: GPUX: expected the row of a column; the table is",
        ),
        (ROCM.replace("\nGPU1   15           0  ", "\n"), "line 4, column 21: GPU1: a column and no row of this name"),
        (ROCM.replace("GPU1   15 ", "GPU0   15 "), "line 6, column 1: GPU0: it has a row on line 5 already"),
        (
            ROCM.replace("XGMI         0 ", "XGMM         0 "),
            "line 16, column 8: XGMM: link type of GPU1 to GPU0: expected",
        ),
        (
            ROCM.replace("XGMI         0 ", "PCIE         0 "),
            "line 16, column 8: PCIE: GPU1 to GPU0 is NODE, and XGMI back; expected the same",
        ),
        (
            ROCM.replace("GPU1   15           0 ", "GPU1   x            0 "),
            "line 6, column 8: x: weight of GPU1 to GPU0:",
        ),
        (
            ROCM.replace("GPU1   15           0 ", "GPU1   15           7 "),
            "line 6, column 21: 7: weight of GPU1 to itself",
        ),
        (ROCM.replace("Numa Node: 1", "Numa Node: "), "line 21, column 1: GPU[1]: expected the NUMA node of a GPU"),
        (ROCM.replace("GPU[1]", "GPU[2]"), "line 18: GPU1: a column and no NUMA node"),
        (ROCM.replace("GPU[1]", "GPU[0]"), "line 21, column 1: GPU[0]: expected the NUMA node of a GPU, each once"),
        (
            SMI.replace("50000-50000", "50000", 1),
            "line 23, column 27: 50000: bandwidth of GPU0 to GPU1: expected least",
        ),
        (
            SMI.replace("0000:15:00.0 ", "0000:15:00 "),
            "line 17, column 27: 0000:15:00: expected the GPUs as amd-smi",
        ),
    ],
)
def test_what_is_not_whole_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(LinkError) as caught:
        read_links(text)
    assert str(caught.value).startswith(problem)
    assert "save" in str(caught.value) or "keep one" in str(caught.value)


def test_other_columns_in_a_later_table_are_refused() -> None:
    head, _, rest = SMI.partition("HOPS TABLE:")
    with pytest.raises(LinkError, match=r"line 7, column 14: 0000:05:00.0: other columns than on line 17"):
        read_links(f"{head}HOPS TABLE:{rest.replace('0000:15:00.0', '0000:16:00.0')}")


def test_more_gpus_than_a_matrix_has_are_refused() -> None:
    names = [f"GPU{i}" for i in range(257)]
    text = ROCM.replace("       GPU0         GPU1         ", " ".join(names))
    with pytest.raises(LinkError, match="GPU256: more than 256 GPUs; at most 256 are read"):
        read_links(text)
