"""A matrix that a terminal or an editor has cut or broken is refused, or still says what the whole one does."""

import random
from collections.abc import Callable

import pytest

from policies.devices.links import LinkError, LinkMatrix, read_links
from tests.unit.policies.devices.links.test_text import PLAIN, TABBED

GPUS, NICS = [f"GPU{i}" for i in range(8)], [f"NIC{i}" for i in range(4)]


def eight_gpus() -> str:
    """What the tool prints on a machine with eight GPUs on two nodes and four NICs."""
    names = [*GPUS, *NICS]
    lines = ["\t" + "\t".join((*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"))]
    for one in names:
        links = [" X " if one == other else "NV18" if {one, other} <= {*GPUS} else "SYS" for other in names]
        node = int(one in GPUS[4:])
        places = (f"{node * 48}-{node * 48 + 47}", f"{node}", "", "N/A") if one in GPUS else ("", "", "", "")
        lines.append("\t".join((one, *links, *places)))
    return "\n".join(lines) + "\n\nNIC Legend:\n\n" + "".join(f"  {nic}: mlx5_{nic[3:]}\n" for nic in NICS)


def of_header(change: Callable[[random.Random, str], str]) -> Callable[[random.Random, str], str]:
    def changed(rng: random.Random, text: str) -> str:
        head, _, rest = text.partition("\n")
        return f"{change(rng, head)}\n{rest}"

    return changed


def without_words(rng: random.Random, head: str) -> str:
    words = head.split()
    at = rng.randrange(len(words))
    return " ".join(words[:at] + words[at + rng.randint(1, 3) :])


def cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text))]


def broken(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return f"{text[:at]}\n{text[at:]}"


def all_lines(rng: random.Random, text: str, between: str) -> str:
    """Each line cut or broken at the width of a terminal, tabs as it shows them."""
    lines = text.expandtabs(8).splitlines()
    width = rng.randrange(8, max(map(len, lines)))
    return "\n".join(between.join((line[:width], line[width:])) if between else line[:width] for line in lines)


MUTATIONS: dict[str, Callable[[random.Random, str], str]] = {
    "header cut": of_header(cut),
    "header broken": of_header(broken),
    "words of the header lost": of_header(without_words),
    "all lines cut": lambda rng, text: all_lines(rng, text, ""),
    "all lines broken": lambda rng, text: all_lines(rng, text, "\n"),
}


@pytest.mark.parametrize("text", [PLAIN, TABBED, eight_gpus()], ids=["spaces", "tabs", "eight GPUs"])
@pytest.mark.parametrize("name", MUTATIONS)
def test_no_column_that_is_read_gets_lost_without_a_word(name: str, text: str) -> None:
    rng, whole = random.Random(f"{name} {len(text)}"), read_links(text)
    read = 0
    for _ in range(80):
        changed = MUTATIONS[name](rng, text)
        try:
            found = read_links(changed)
        except LinkError:
            continue
        read += 1
        assert told(found) == told(whole), changed
    assert read < 80


def told(matrix: LinkMatrix) -> object:
    """What a matrix tells; lists of CPUs may be cut by the tool itself, and names of NICs are told by the legend."""
    nics = [nic.name for nic in matrix.nics]
    return [(gpu.index, gpu.nodes, bool(gpu.cpus)) for gpu in matrix.gpus], nics, matrix.links


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("GPU0 CPU Affi\nGPU0 X 0-3 0", "line 1, column 6: CPU: expected the columns CPU Affinity, NUMA Affinity, GPU"),
        (
            "GPU0\nCPU Affinity\nGPU0 X 0-3 0",
            "line 3, column 8: 0-3: a word of no column; the columns behind the devices are none",
        ),
        ("GPU0 CPU Affinity\nGPU0 X 0-3 0", "line 2, column 12: 0: a word of no column; the columns behind the"),
        (
            "GPU0 NIC0 CPU Affinity\nGPU0 X PIX 0-3\nNIC0 PIX X",
            "line 1, column 15: Affinity: the last column, and none is NUMA",
        ),
    ],
)
def test_what_a_header_has_lost_is_named(text: str, problem: str) -> None:
    with pytest.raises(LinkError) as caught:
        read_links(text)
    assert str(caught.value).startswith(problem)
