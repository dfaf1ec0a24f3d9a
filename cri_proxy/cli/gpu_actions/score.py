"""``cri-proxy gpu score``: score a node for a pod that requests GPUs, as KEP-690 has the scheduler do."""

from cri_proxy.cli.documents import Document, DocumentCommand, DocumentOption
from cri_proxy.cli.gpu_actions.allocate import AVAILABLE
from cri_proxy.cli.render.columns import paragraph
from cri_proxy.link_file import as_link_document, read_link_document
from policies.devices.links import FULL_SCORE, NodeScore, node_score
from sysfs.documents.forms import between

EXAMPLE = """\
cri-proxy gpu score configs/links/server.txt --request 4
cri-proxy gpu score configs/links/kep-690.txt --request 2,2 --available 0-5 -o json"""

# More containers than a pod has; a typing error is told as such.
_MOST_CONTAINERS = 64


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(between(1, noun="number of GPUs")(part.strip()) for part in text.split(","))
    if len(counts) > _MOST_CONTAINERS:
        raise ValueError(f"{len(counts)} containers; at most {_MOST_CONTAINERS} are scored")
    return counts


REQUEST: DocumentOption[tuple[int, ...]] = DocumentOption(
    "request", _counts, (), "how many GPUs the pod requests; one number for each container that does", "N[,N…]"
)
OPTIONS: tuple[DocumentOption[object], ...] = (REQUEST, AVAILABLE)


def _answer(document: Document) -> NodeScore:
    matrix = read_link_document(document.root)
    request = document.option(REQUEST)
    if not request:
        raise document.root.refuse("request: missing; give --request N, or options: {request: N}")
    return node_score(matrix, request, document.option(AVAILABLE))


def _plain(found: NodeScore) -> object:
    return {
        "set_score": found.set_points,
        "max": found.most_points,
        "score": found.score,
        "exact": float(found.exact),
        "ratio": str(found.exact / FULL_SCORE),
        "containers": [list(devices) for devices in found.devices],
    }


def _text(found: NodeScore) -> str:
    exact = f"{float(found.exact):.6f}".rstrip("0").rstrip(".")
    lines = [f"score {found.score}, exactly {exact}: {found.set_points} of {found.most_points} points"]
    for devices in found.devices:
        lines += paragraph(", ".join(f"GPU{gpu}" for gpu in devices), "  ", first="  ")
    return "\n".join(lines)


COMMAND = DocumentCommand(OPTIONS, _answer, _text, plain=_plain, repaired=as_link_document)
register, run = COMMAND.register, COMMAND.run
