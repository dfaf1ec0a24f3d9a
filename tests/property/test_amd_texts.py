"""Tables of AMD's tools that were cut, broken or damaged are refused, or still say what the whole ones do."""

import random
from collections.abc import Callable

import pytest

from policies.devices.links import LinkError, LinkMatrix, read_links
from tests.fakes.amd_texts import amd_smi, amd_smi_json, former_amd_smi_json, islands, packages, rocm_smi, rocm_smi_json

Change = Callable[[random.Random, str], str]
TEXTS = {
    "rocm-smi": rocm_smi(islands()),
    "rocm-smi, two GPUs": rocm_smi(islands(2, 1)),
    "rocm-smi, 16 GPUs": rocm_smi(islands(16, 8)),
    "amd-smi": amd_smi(islands()),
    "amd-smi, packages": amd_smi(packages()),
    "amd-smi, JSON": amd_smi_json(islands(4, 2)),
    "amd-smi, former JSON": former_amd_smi_json(islands(4, 2)),
    "rocm-smi, JSON": rocm_smi_json(islands(4, 2)),
}


def at_width(rng: random.Random, text: str, between: str) -> str:
    """Each line cut or broken at the width of a terminal, tabs as it shows them."""
    lines = text.expandtabs(8).splitlines()
    width = rng.randrange(8, max(map(len, lines)))
    return "\n".join(between.join((line[:width], line[width:])) if between else line[:width] for line in lines)


def of_lines(change: Callable[[random.Random, list[str], int], None]) -> Change:
    def changed(rng: random.Random, text: str) -> str:
        lines = text.split("\n")
        change(rng, lines, rng.randrange(len(lines)))
        return "\n".join(lines)

    return changed


def swapped_words(rng: random.Random, lines: list[str], at: int) -> None:
    words = lines[at].split()
    rng.shuffle(words)
    lines[at] = " ".join(words[rng.randint(0, 1) :])


def between(rng: random.Random, text: str, put: str) -> str:
    at = rng.randrange(len(text))
    return f"{text[:at]}{put}{text[at:]}"


def without(rng: random.Random, text: str, most: int) -> str:
    at = rng.randrange(len(text))
    return text[:at] + text[at + rng.randint(1, most) :]


MUTATIONS: dict[str, Change] = {
    "the end lost": lambda rng, text: text[: rng.randrange(len(text))],
    "the beginning lost": lambda rng, text: text[rng.randrange(len(text)) :],
    "broken once": lambda rng, text: between(rng, text, "\n"),
    "a character lost": lambda rng, text: without(rng, text, 1),
    "a piece lost": lambda rng, text: without(rng, text, 200),
    "a line lost": of_lines(lambda rng, lines, at: lines.__delitem__(at)),
    "a line twice": of_lines(lambda rng, lines, at: lines.insert(at, rng.choice(lines))),
    "words of a line shuffled": of_lines(swapped_words),
    "all lines cut": lambda rng, text: at_width(rng, text, ""),
    "all lines broken": lambda rng, text: at_width(rng, text, "\n"),
}


def told(matrix: LinkMatrix) -> object:
    return {gpu.index: (gpu.nodes, gpu.address) for gpu in matrix.gpus}, dict(matrix.links)


@pytest.mark.parametrize("source", TEXTS)
def test_nothing_that_is_read_gets_lost_without_a_word(source: str) -> None:
    whole, rng, refused = told(read_links(TEXTS[source])), random.Random(source), 0
    for i in range(400):
        name = [*MUTATIONS][i % len(MUTATIONS)]
        changed = MUTATIONS[name](rng, TEXTS[source])
        try:
            found = read_links(changed)
        except LinkError as error:
            refused += 1
            assert error.token, changed
            continue
        assert told(found) == whole, f"{name}\n{changed}"
    assert refused > 100
