import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.devices.links import (
    UNKNOWN,
    Link,
    LinkError,
    LinkMatrix,
    MatrixGpu,
    MatrixNic,
    joined_labels,
    labels_of,
    link_annotation,
    read_annotation,
    read_links,
)
from sysfs.cpuset import NodeSet
from tests.fakes.amd_texts import amd_smi, packages
from tests.unit.policies.devices.links.machines import KEP_690

WORD = "v1.0t3.n0x2n1x2.v12sx4v12"
# The syntax of the value of a label (kubernetes.io/docs/concepts/overview/working-with-objects/labels).
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
LINKS = st.one_of(
    st.integers(1, 999).map(Link),
    st.sampled_from(("PSB", "PIX", "PXB", "PHB", "NODE", "SYS", UNKNOWN)).map(lambda word: Link(pcie=word)),
    st.integers(1, 99).map(lambda links: Link(xgmi=links)),
    st.integers(2, 9).map(lambda hops: Link(xgmi=1, xgmi_hops=hops)),
)


@st.composite
def matrices(draw: st.DrawFn) -> LinkMatrix:
    indices = sorted(draw(st.sets(st.integers(0, 20), max_size=9)))
    gpus = tuple(MatrixGpu(i, NodeSet.of(draw(st.sets(st.integers(0, 9), max_size=3)))) for i in indices)
    return linked(gpus, lambda: draw(LINKS))


def linked(gpus: tuple[MatrixGpu, ...], link: Callable[[], Link] | Link) -> LinkMatrix:
    links: dict[tuple[str, str], Link] = {}
    for i, one in enumerate(gpus):
        for other in gpus[:i]:
            links[one.name, other.name] = links[other.name, one.name] = link if isinstance(link, Link) else link()
    return LinkMatrix(gpus, (), links)


@given(matrices())
def test_what_is_published_is_read_again(matrix: LinkMatrix) -> None:
    assert read_annotation(link_annotation(matrix)) == matrix


@given(matrices())
def test_the_pieces_are_values_of_labels_and_make_the_word_again(matrix: LinkMatrix) -> None:
    word = link_annotation(matrix)
    assert [piece for piece in labels_of(word).values() if not LABEL_VALUE.fullmatch(piece)] == []
    assert joined_labels({"kubernetes.io/os": "linux", **labels_of(word)}) == word


def test_links_and_numa_nodes_stay_and_cpus_and_nics_go() -> None:
    gpus = (MatrixGpu(0, NodeSet.of([0]), "0-31"), MatrixGpu(1, NodeSet.of([0, 1]), "0-63"))
    links = {("GPU0", "GPU1"): Link(4), ("GPU1", "GPU0"): Link(4)}
    matrix = LinkMatrix(gpus, (MatrixNic("NIC0"),), links)
    assert link_annotation(matrix) == "v1.0t1.n0n0a1.v4"
    assert read_annotation("v1.0t1.n0n0a1.v4").gpus == (
        MatrixGpu(0, NodeSet.of([0])),
        MatrixGpu(1, NodeSet.of([0, 1])),
    )


def test_the_matrix_of_the_kep_fits_a_label() -> None:
    word = link_annotation(read_links(KEP_690))
    assert word == "v1.0t7.ux8.v1x2v2x2sx3v2v1sv2sx2v2sx2v1sx4v1x3v2x2v1v2"
    assert [*labels_of(word).values()] == [word]


@pytest.mark.parametrize(
    ("gpus", "word"),
    [
        ((), "v1.none"),
        ((MatrixGpu(0),), "v1.0.u"),
        ((MatrixGpu(3, NodeSet.of([1])), MatrixGpu(7)), "v1.3a7.n1u.u"),
    ],
)
def test_few_gpus_have_a_word_too(gpus: tuple[MatrixGpu, ...], word: str) -> None:
    assert link_annotation(linked(gpus, Link())) == word
    assert read_annotation(word) == linked(gpus, Link())


def test_the_order_of_the_columns_changes_nothing() -> None:
    gpus = (MatrixGpu(1), MatrixGpu(0))
    assert link_annotation(linked(gpus, Link(2))) == link_annotation(linked(gpus[::-1], Link(2)))


def test_as_many_gpus_as_are_published_are_read_and_more_are_refused() -> None:
    chance = random.Random(1)
    gpus = tuple(MatrixGpu(2 * i, NodeSet.of([i])) for i in range(32))
    largest = linked(gpus, lambda: Link(chance.randrange(100, 1000)))
    assert read_annotation(link_annotation(largest)) == largest
    with pytest.raises(LinkError, match=r"33 GPUs; at most 32 are published"):
        link_annotation(linked((*gpus, MatrixGpu(999)), Link()))


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("", "'': expected the version v1; publish the matrix with cri-proxy gpu publish"),
        ("v2.0t3", "'v2': expected the version v1"),
        ("v1", "0 parts behind the version; expected GPUs, NUMA nodes and links"),
        ("v1.0t1.n0x2.v1.v1", "4 parts behind the version"),
        ("v1.3t0.u.", "'3t0': expected numbers of GPUs, ascending"),
        ("v1.5t3.u.", "'5t3': expected numbers of GPUs, ascending"),
        ("v1.0a0.ux2.s", "'0': expected numbers of GPUs, ascending"),
        ("v1.0t32.ux33.sx528", "'0t32': more than 32 GPUs"),
        ("v1.0t3.n0x2.sx6", "'n0x2': 2 NUMA nodes; expected 4, which the GPUs have"),
        ("v1.0t3.n0x5.sx6", "'n0x5': more NUMA nodes than 4"),
        ("v1.0t3.n0x4.sx5", "'sx5': 5 links; expected 6, which the GPUs have"),
        ("v1.0t3.n0x4.sx7", "'sx7': more links than 6"),
        ("v1.0t3.n0x4", "'nothing': 0 links; expected 6"),
        ("v1.0t1.n0x2.q", "'q': expected links at character 1 of them"),
        ("v1.0t1.n0x2.v0", "'v0': expected links at character 1"),
        ("v1.0t1.n0x2.sx0", "'x0': expected links at character 2"),
        ("v1.0.n1a.", "'a': expected NUMA nodes at character 3"),
        ("v1.q.u", "'q': expected numbers of GPUs"),
        ("v1." + "s" * 6077, "'v1.sssssssssssssssss': 1 parts behind the version"),
        ("v1." + "s" * 6078, "6081 characters; 32 GPUs need at most 6080"),
        ("v1." + "s" * 70_000, "70003 characters; 32 GPUs need at most 6080"),
    ],
)
def test_anything_else_is_an_error_with_what_was_expected(word: str, problem: str) -> None:
    with pytest.raises(LinkError) as raised:
        read_annotation(word)
    assert problem in raised.value.sentence
    assert (raised.value.line, raised.value.column) == (0, 0)


@pytest.mark.parametrize(
    ("word", "lengths"),
    [
        ("a" * 63, [63]),
        ("a" * 64, [63, 1]),
        ("a" * 62 + ".aa", [61, 4]),
        ("a" * 63 + ".aa", [62, 4]),
        ("a" * 61 + ".aa", [63, 1]),
        ("a" * 130, [63, 63, 4]),
    ],
)
def test_a_word_is_cut_as_late_as_may_be_and_not_beside_a_dot(word: str, lengths: list[int]) -> None:
    assert [len(piece) for piece in labels_of(word).values()] == lengths
    assert joined_labels(labels_of(word)) == word


def test_a_piece_that_is_missing_ends_the_word() -> None:
    assert joined_labels({}) == ""
    assert joined_labels({"gpu-links.cri-proxy.io/0": WORD[:9], "gpu-links.cri-proxy.io/2": "v12"}) == WORD[:9]


def test_xgmi_has_its_number_of_links_or_hops() -> None:
    matrix = read_links(amd_smi(packages()))
    word = link_annotation(matrix)
    assert word == "v1.0t7.ux8.g4g1x2j2x2g1x4j2x2g1x2g4g1x2j2x2g1x2j2x2g4g1x4g4"
    assert read_annotation(word).links == matrix.links


@pytest.mark.parametrize("token", ["g0", "j1", "g", "j10", "g100"])
def test_xgmi_without_a_number_of_its_own_is_an_error(token: str) -> None:
    with pytest.raises(LinkError, match="links"):
        read_annotation(f"v1.0t1.ux2.{token}")
