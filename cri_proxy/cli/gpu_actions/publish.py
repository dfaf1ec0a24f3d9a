"""``cri-proxy gpu publish``: the matrix of a node as the word that its annotation or labels have for the scheduler."""

import argparse
from dataclasses import replace

from cri_proxy.cli.arguments import add_path
from cri_proxy.cli.documents import Document, DocumentCommand
from cri_proxy.cli.gpu_actions import allocate, score
from cri_proxy.cli.gpu_actions.allocate import AVAILABLE
from cri_proxy.cli.output import emit
from cri_proxy.errors import CommandFailed
from cri_proxy.feature_file import FEATURE_DIRECTORY, feature_text, write_feature_file
from cri_proxy.link_file import as_link_document, read_link_document
from cri_proxy.yaml_fields import DocumentError
from policies.devices.links import ANNOTATION, LinkError, LinkMatrix, labels_of, link_annotation

HELP = "print the matrix as an annotation of the node, or write it as a feature file, for cri-proxy extender"
EXAMPLE = f"""\
cri-proxy gpu publish configs/links/server.txt
kubectl annotate --overwrite node NAME "{ANNOTATION}=$(cri-proxy gpu publish configs/links/server.txt)"
nvidia-smi topo -m | cri-proxy gpu publish - --feature-file {FEATURE_DIRECTORY}/gpu-links"""

COMMENT = "How the GPUs of this node are linked, for cri-proxy extender. Written by: cri-proxy gpu publish"


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    COMMAND.register(parser)
    text = "write labels for node-feature-discovery there, as a whole and only where something changes"
    add_path(parser, "--feature-file", "PATH", text)


def run(args: argparse.Namespace) -> int:
    """Publish the matrix of every document; a feature file takes one. Raises CommandFailed."""
    if args.feature_file is None:
        return COMMAND.run(args)
    documents = list(COMMAND.documents(args))
    if len(documents) != 1:
        raise CommandFailed(f"{args.file}: {len(documents)} documents; a feature file takes the one of its node")
    (document,) = documents
    if isinstance(document, DocumentError):
        raise document
    word = _answer(document)
    write_feature_file(args.feature_file, feature_text(labels_of(word), COMMENT))
    emit(word, args.output, str, plain=_plain)
    return 0


def _answer(document: Document) -> str:
    """Return the word that the node publishes."""
    matrix = read_link_document(document.root)
    available = document.option(AVAILABLE)
    return link_annotation(matrix if available is None else _only(matrix, available))


def _only(matrix: LinkMatrix, available: frozenset[int]) -> LinkMatrix:
    if unknown := sorted(available - matrix.indices):
        raise LinkError(0, 0, f"GPU{unknown[0]}", "available, but not in the matrix; name GPUs that it has")
    return replace(matrix, gpus=tuple(gpu for gpu in matrix.gpus if gpu.index in available))


def _plain(word: str) -> object:
    return {"annotation": ANNOTATION, "value": word, "labels": labels_of(word)}


COMMAND = DocumentCommand(
    (AVAILABLE,), _answer, str, plain=_plain, repaired=as_link_document, others=(*allocate.OPTIONS, score.REQUEST)
)
