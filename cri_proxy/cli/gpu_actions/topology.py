"""``cri-proxy gpu topology``: show how the GPUs and NICs of a node reach each other."""

from collections.abc import Mapping, Sequence

from cri_proxy.cli.documents import DocumentCommand
from cri_proxy.cli.gpu_actions import allocate, score
from cri_proxy.link_file import as_link_document, read_link_document
from policies.devices.links import SELF, UNKNOWN, LinkMatrix, MatrixGpu, MatrixNic, cut_off, unlinked

EXAMPLE = """\
cri-proxy gpu topology configs/links/server.txt
nvidia-smi topo -m | cri-proxy gpu topology - -o json
cri-proxy gpu topology configs/links/mi300x.txt"""

# A file may have options for the other actions; they change no matrix.
_OPTIONS = (*allocate.OPTIONS, score.REQUEST)


def _plain(matrix: LinkMatrix) -> object:
    return {
        "gpus": [_plain_gpu(gpu) for gpu in matrix.gpus],
        "links": [[_word(matrix, one.name, other.name) for other in matrix.gpus] for one in matrix.gpus],
        "nics": [
            {
                "name": nic.name,
                "device": nic.device or None,
                "links": [_word(matrix, nic.name, gpu.name) for gpu in matrix.gpus],
            }
            for nic in matrix.nics
        ],
    }


def _plain_gpu(gpu: MatrixGpu) -> Mapping[str, object]:
    plain = {"index": gpu.index, "numa": _numa(gpu), "cpus": gpu.cpus or None}
    return plain | ({"address": gpu.address} if gpu.address else {})


def _numa(gpu: MatrixGpu) -> int | str | None:
    """Return the node, a list of nodes like 0-1, or nothing."""
    nodes = tuple(gpu.nodes)
    return nodes[0] if len(nodes) == 1 else str(gpu.nodes) or None


def _word(matrix: LinkMatrix, one: str, other: str) -> str:
    return SELF if one == other else matrix.links[one, other].word


def _text(matrix: LinkMatrix) -> str:
    if not matrix.gpus and not matrix.nics:
        return "no GPU"
    devices: Sequence[MatrixGpu | MatrixNic] = (*matrix.gpus, *matrix.nics)
    rows = [["", *(device.name for device in devices), "NUMA node", "CPUs"]]
    for device in devices:
        place = (str(device.nodes), device.cpus) if isinstance(device, MatrixGpu) else ("", "")
        words = (_word(matrix, device.name, other.name) for other in devices)
        rows.append([device.name, *words, *(text or UNKNOWN for text in place)])
    # A matrix that is broken at the width of the terminal cannot be read, so it is not.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    names = [f"{nic.name}: {nic.device}" for nic in matrix.nics if nic.device not in ("", nic.name)]
    names += [f"{gpu.name}: {gpu.address}" for gpu in matrix.gpus if gpu.address]
    names += _without_links(matrix)
    return "\n".join([*lines, *([""] if names else []), *names])


def _without_links(matrix: LinkMatrix) -> list[str]:
    """Return what to know of GPUs without any NVLink or XGMI beside others that have it."""
    found = unlinked(matrix)
    if not found:
        return []
    has = "has" if len(found) == 1 else "have"
    kind = "XGMI" if any(link.xgmi for link in matrix.links.values()) else "NVLink"
    text = f"{', '.join(f'GPU{number}' for number in found)} {has} no {kind}, which other GPUs have"
    return [f"{text}, and {'is' if len(found) == 1 else 'are'} given last" if cut_off(matrix) else text]


COMMAND = DocumentCommand(
    (),
    lambda document: read_link_document(document.root),
    _text,
    plain=_plain,
    repaired=as_link_document,
    others=_OPTIONS,
)
register, run = COMMAND.register, COMMAND.run
