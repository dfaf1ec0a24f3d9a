"""``cri-proxy gpu allocate``: choose GPUs that are linked well, and leave well linked ones."""

from dataclasses import dataclass
from itertools import combinations
from time import perf_counter
from typing import Final

from cri_proxy.cli.documents import Document, DocumentCommand, DocumentOption, choice, flag
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.cli.render.columns import paragraph
from cri_proxy.link_file import as_link_document, read_link_document
from policies.devices.links import GpuAllocation, GpuRequest, LinkMode, LinkOptions, LinkPolicy, allocate, pair_points
from sysfs.cpuset import CpuSetError, NodeSet
from sysfs.documents.forms import one_of, whole

EXAMPLE = """\
cri-proxy gpu allocate configs/links/server.txt --size 2
cri-proxy gpu allocate configs/links/kep-690.txt --size 4 --available 0,2-7 --required 3
cri-proxy gpu allocate configs/links/kep-690.txt --size 2 --policy static-dgx1-volta -o json"""


def gpu_numbers(text: str) -> frozenset[int]:
    """Return the numbers of a list.

    >>> sorted(gpu_numbers("0,4-6"))
    [0, 4, 5, 6]
    """
    try:
        return frozenset(NodeSet.parse(text))
    except CpuSetError:
        raise ValueError(f"expected numbers of GPUs like 0,1,4-7, got {text[:40]!r}") from None


SIZE: DocumentOption[int | None] = DocumentOption("size", whole, None, "how many GPUs are requested", "N")
AVAILABLE: DocumentOption[frozenset[int] | None] = DocumentOption(
    "available", gpu_numbers, None, "GPUs that are free, as 0,1,4-7; default all", "LIST"
)
REQUIRED: DocumentOption[frozenset[int]] = DocumentOption(
    "required", gpu_numbers, frozenset(), "GPUs that must be among the chosen ones", "LIST"
)
POLICY = DocumentOption(
    "policy", one_of(LinkPolicy), LinkPolicy.BEST_EFFORT, f"{', '.join(LinkPolicy)}; default best-effort", "NAME"
)
MODE = choice(
    "mode",
    LinkMode.SUM,
    "points of a pair: sum (default) of its PCIe path and NVLinks, or matrix: NVLinks hide the path, as in a text",
)
EXACT = flag("exact", "best-effort: the best set of all partitions with the greatest total, not of the first such one")
SPARE_LINKS = flag(
    "spare-links",
    "best-effort: a single GPU is the one whose links the other available ones miss least, instead of the first",
)
OPTIONS: tuple[DocumentOption[object], ...] = (SIZE, AVAILABLE, REQUIRED, POLICY, MODE, EXACT, SPARE_LINKS)

# A document may name the policy too, and the same command line goes for several documents.
WITHOUT_EFFECT: Final = (
    WithoutEffect(
        ("--exact", "--spare-links"),
        f"without --policy {LinkPolicy.BEST_EFFORT}",
        lambda args: args.policy not in (None, LinkPolicy.BEST_EFFORT),
    ),
)


@dataclass(frozen=True, slots=True)
class AllocateAnswer:
    """The allocation, its pairs with their words and points, and the time of the decision without reading."""

    found: GpuAllocation
    pairs: tuple[tuple[str, str, int], ...]
    elapsed_ms: float


def _answer(document: Document) -> AllocateAnswer:
    matrix = read_link_document(document.root)
    size = document.option(SIZE)
    if size is None:
        raise document.root.refuse("size: missing; give --size N, or options: {size: N}")
    request = GpuRequest(size, document.option(AVAILABLE), document.option(REQUIRED))
    mode = document.option(MODE)
    options = LinkOptions(document.option(POLICY), mode, document.option(EXACT), document.option(SPARE_LINKS))
    start = perf_counter()
    found = allocate(matrix, request, options)
    elapsed_ms = round(1000 * (perf_counter() - start), 3)
    pairs = [(one, other, matrix.link(one, other)) for one, other in combinations(found.devices, 2)]
    shown = tuple((f"GPU{one}-GPU{other}", link.word, pair_points(link, mode)) for one, other, link in pairs)
    return AllocateAnswer(found, shown, elapsed_ms)


def _plain(answer: AllocateAnswer) -> object:
    found = answer.found
    plain: dict[str, object] = {"devices": list(found.devices), "score": found.score}
    if found.total is not None:
        plain |= {"total": found.total, "optimal": found.is_optimal}
    if found.rejected:
        plain["rejected"] = found.rejected
    return plain | {"elapsed_ms": answer.elapsed_ms}


def _text(answer: AllocateAnswer) -> str:
    found = answer.found
    if found.rejected:
        return "\n".join(paragraph(found.rejected, "  ", first="rejected: "))
    lines = paragraph(", ".join(f"GPU{gpu}" for gpu in found.devices), "  ", first=f"score {found.score}: ")
    width = max((len(pair) for pair, _, _ in answer.pairs), default=0)
    of_word = max((len(word) for _, word, _ in answer.pairs), default=0)
    lines += [f"  {pair:<{width}}  {word:<{max(4, of_word)}}  {points}" for pair, word, points in answer.pairs]
    if found.total is not None:
        proof = "the best of all partitions" if found.is_optimal else "not proved to be the best of all partitions"
        lines += ["", f"score of the partition {found.total}, {proof}"]
    return "\n".join([*lines, f"decided in {answer.elapsed_ms:.1f} ms"])


COMMAND = DocumentCommand(
    OPTIONS, _answer, _text, lambda answer: bool(answer.found.rejected), _plain, repaired=as_link_document
)
register, run = COMMAND.register, COMMAND.run
