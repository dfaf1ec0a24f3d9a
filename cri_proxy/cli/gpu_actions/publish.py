"""``cri-proxy gpu publish``: the matrix of a node as the word that its annotation or labels have for the scheduler."""

import argparse
from dataclasses import replace
from functools import partial
from typing import Final

from cri_proxy.cli.admin import add_admin_option, fetch
from cri_proxy.cli.arguments import add_path
from cri_proxy.cli.documents import Document, DocumentCommand
from cri_proxy.cli.gpu_actions import allocate, score
from cri_proxy.cli.gpu_actions.allocate import AVAILABLE
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.cli.output import emit
from cri_proxy.errors import CommandFailed
from cri_proxy.feature_file import FEATURE_DIRECTORY, feature_text, write_feature_file
from cri_proxy.link_file import as_link_document, read_link_document
from cri_proxy.node.status.inventory import state_of
from cri_proxy.node.status.model import StatusView
from cri_proxy.yaml_fields import DocumentError
from policies.devices import GPU
from policies.devices.links import (
    ANNOTATION,
    FREE_ANNOTATION,
    FREE_LABEL,
    LinkError,
    LinkMatrix,
    free_text,
    labels_of,
    link_annotation,
)
from sysfs.cpuset import CpuSet, CpuSetError

EXAMPLE = f"""\
cri-proxy gpu publish configs/links/server.txt
kubectl annotate --overwrite node NAME "{ANNOTATION}=$(cri-proxy gpu publish configs/links/server.txt)"
nvidia-smi topo -m | cri-proxy gpu publish - --feature-file {FEATURE_DIRECTORY}/gpu-links
nvidia-smi topo -m | cri-proxy gpu publish - --free daemon --feature-file {FEATURE_DIRECTORY}/gpu-links"""

WITHOUT_EFFECT: Final = (WithoutEffect(("--admin",), "without --free daemon", lambda args: args.free != "daemon"),)

COMMENT = "How the GPUs of this node are linked, for cri-proxy extender. Written by: cri-proxy gpu publish"


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    COMMAND.register(parser)
    text = "write labels for node-feature-discovery there, as a whole and only where something changes"
    add_path(parser, "--feature-file", "PATH", text)
    free = "publish also which GPUs are free, on which pods are scored then: a list as 0-3,5; daemon: as that of this "
    parser.add_argument("--free", default="", metavar="LIST|daemon", help=f"{free}node has them")
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Publish the matrix of every document; a feature file takes one. Raises CommandFailed."""
    free = _free(args)
    if args.feature_file is None:
        return replace(COMMAND, plain=partial(_plain, free)).run(args)
    documents = list(COMMAND.documents(args))
    if len(documents) != 1:
        raise CommandFailed(f"{args.file}: {len(documents)} documents; a feature file takes the one of its node")
    (document,) = documents
    if isinstance(document, DocumentError):
        raise document
    word = _answer(document)
    write_feature_file(args.feature_file, feature_text(_labels(free, word), COMMENT))
    emit(word, args.output, str, plain=partial(_plain, free))
    return 0


def _free(args: argparse.Namespace) -> frozenset[int] | None:
    """Return the GPUs that are free; None where none are published. Raises CommandFailed and DaemonUnreachable."""
    if args.free == "daemon":
        gpus = [device for device in fetch(args.admin, "/api/v1/status", StatusView).inventory if device.type == GPU]
        # A GPU that is cut into MIG instances has no holder, and is not free.
        return frozenset(device.minor for device in gpus if state_of(device) == "free")
    try:
        return frozenset(CpuSet.parse(args.free)) if args.free else None
    except CpuSetError as error:
        raise CommandFailed(f"--free {args.free}: expected a list as 0-3,5, or daemon: {error.problem}", 2) from None


def _labels(free: frozenset[int] | None, word: str) -> dict[str, str]:
    return labels_of(word) | ({} if free is None else {FREE_LABEL: free_text(free)})


def _answer(document: Document) -> str:
    """Return the word that the node publishes."""
    matrix = read_link_document(document.root)
    available = document.option(AVAILABLE)
    return link_annotation(matrix if available is None else _only(matrix, available))


def _only(matrix: LinkMatrix, available: frozenset[int]) -> LinkMatrix:
    if unknown := sorted(available - matrix.indices):
        raise LinkError(0, 0, f"GPU{unknown[0]}", "available, but not in the matrix; name GPUs that it has")
    return replace(matrix, gpus=tuple(gpu for gpu in matrix.gpus if gpu.index in available))


def _plain(free: frozenset[int] | None, word: str) -> object:
    more = {} if free is None else {"free": {"annotation": FREE_ANNOTATION, "value": free_text(free)}}
    return {"annotation": ANNOTATION, "value": word, **more, "labels": _labels(free, word)}


COMMAND = DocumentCommand(
    (AVAILABLE,),
    _answer,
    str,
    plain=partial(_plain, None),
    repaired=as_link_document,
    others=(*allocate.OPTIONS, score.REQUEST),
)
