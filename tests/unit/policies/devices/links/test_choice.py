import pytest

from policies.devices.links import (
    GpuAllocation,
    GpuRequest,
    LinkError,
    LinkMatrix,
    LinkMode,
    LinkOptions,
    LinkPolicy,
    allocate,
    matrix_of,
    read_links,
)
from tests.unit.policies.devices.links.machines import alike, kep_690, of_nvlinks

SIMPLE = LinkOptions(LinkPolicy.SIMPLE)


def devices(matrix: LinkMatrix, request: GpuRequest, policy: LinkPolicy = LinkPolicy.BEST_EFFORT) -> tuple[int, ...]:
    return allocate(matrix, request, LinkOptions(policy)).devices


def test_best_effort_gives_the_linked_pair_of_the_kep() -> None:
    assert allocate(kep_690(), GpuRequest(2)) == GpuAllocation((0, 3), 200, 800)
    assert devices(kep_690(), GpuRequest(2, frozenset({0, 1, 2, 6}))) == (1, 2)


def test_simple_gives_what_is_required_and_the_first_others() -> None:
    matrix = kep_690()
    assert allocate(matrix, GpuRequest(3), SIMPLE).devices == (0, 1, 2)
    found = allocate(matrix, GpuRequest(3, frozenset({1, 4, 5, 6}), frozenset({6})), SIMPLE)
    assert (found.devices, found.score, found.total) == ((1, 4, 6), 120, None)


@pytest.mark.parametrize(
    ("policy", "size", "expected"),
    [
        (LinkPolicy.STATIC_DGX1_PASCAL, 2, (0, 2)),
        (LinkPolicy.STATIC_DGX1_VOLTA, 2, (0, 3)),
        (LinkPolicy.STATIC_DGX1_VOLTA, 4, (0, 1, 2, 3)),
        (LinkPolicy.STATIC_DGX1_VOLTA, 8, tuple(range(8))),
        (LinkPolicy.STATIC_DGX2, 2, (0, 1)),
        (LinkPolicy.STATIC_DGX2, 1, (0,)),
    ],
)
def test_static_policies_give_the_first_free_set_of_their_list(
    policy: LinkPolicy, size: int, expected: tuple[int, ...]
) -> None:
    assert devices(kep_690(), GpuRequest(size), policy) == expected


def test_static_policies_skip_sets_that_are_not_free_or_lack_what_is_required() -> None:
    volta = LinkPolicy.STATIC_DGX1_VOLTA
    assert devices(kep_690(), GpuRequest(2, frozenset({0, 1, 2, 4, 7})), volta) == (1, 2)
    assert devices(kep_690(), GpuRequest(2, None, frozenset({6})), volta) == (5, 6)
    none = allocate(kep_690(), GpuRequest(2, None, frozenset({0, 1})), LinkOptions(volta))
    assert none.rejected.startswith("size: no set of 2 of static-dgx1-volta with all that is required is available")


@pytest.mark.parametrize("size", [3, 5, 6, 7])
def test_static_policies_have_no_other_sizes(size: int) -> None:
    found = allocate(kep_690(), GpuRequest(size), LinkOptions(LinkPolicy.STATIC_DGX1_PASCAL))
    assert found == GpuAllocation((), rejected=f"size: {size} requested; static-dgx1-pascal has sets of 1, 2, 4, 8")


def test_a_dgx2_has_16_gpus() -> None:
    """The peer once built the policy of another machine here."""
    matrix = alike(16, 6)
    assert devices(matrix, GpuRequest(16), LinkPolicy.STATIC_DGX2) == tuple(range(16))
    assert devices(matrix, GpuRequest(8, frozenset(range(4, 16))), LinkPolicy.STATIC_DGX2) == tuple(range(8, 16))


@pytest.mark.parametrize("policy", [policy for policy in LinkPolicy if policy.startswith("static")])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_static_sets_of_a_size_are_apart_and_cover_the_machine(policy: LinkPolicy, size: int) -> None:
    count = 16 if policy is LinkPolicy.STATIC_DGX2 else 8
    left = frozenset(range(count))
    while left:
        found = devices(alike(count, 6), GpuRequest(size, left), policy)
        assert len(found) == size
        left -= frozenset(found)


@pytest.mark.parametrize("policy", LinkPolicy)
@pytest.mark.parametrize(
    ("request_", "rejected"),
    [
        (GpuRequest(0), "size: 0 requested; ask for at least 1"),
        (GpuRequest(-1), "size: -1 requested; ask for at least 1"),
        (GpuRequest(9), "size: 9 requested, 8 available"),
        (GpuRequest(2, frozenset({3})), "size: 2 requested, 1 available"),
        (GpuRequest(1, frozenset()), "size: 1 requested, 0 available"),
        (GpuRequest(1, frozenset({0}), frozenset({4})), "required: GPU4 is not available"),
        (GpuRequest(1, None, frozenset({4, 5})), "required: 2 GPUs, and only 1 requested"),
    ],
)
def test_nothing_to_give_is_an_answer_with_a_sentence(policy: LinkPolicy, request_: GpuRequest, rejected: str) -> None:
    found = allocate(kep_690(), request_, LinkOptions(policy))
    assert found.rejected.startswith(rejected)
    assert found == GpuAllocation((), rejected=found.rejected)


def test_an_available_gpu_that_the_matrix_lacks_is_an_error() -> None:
    with pytest.raises(LinkError, match="GPU9: available, but not in the matrix, which has 0, 1, 2, 3, 4, 5, 6, 7"):
        allocate(kep_690(), GpuRequest(1, frozenset({0, 9})))


def test_one_gpu_is_the_first_or_the_required_one() -> None:
    assert devices(kep_690(), GpuRequest(1)) == (0,)
    assert devices(kep_690(), GpuRequest(1, None, frozenset({5}))) == (5,)


def test_one_gpu_may_be_the_one_that_the_others_miss_least() -> None:
    """Peer defect: a request of one takes the first GPU, here half of the only linked pair."""
    matrix = of_nvlinks([[0, 4, 0], [4, 0, 0], [0, 0, 0]])
    assert devices(matrix, GpuRequest(1)) == (0,)
    sparing = LinkOptions(spares_links=True)
    assert allocate(matrix, GpuRequest(1), sparing).devices == (2,)
    assert allocate(matrix, GpuRequest(1, frozenset({0, 1})), sparing).devices == (0,)
    assert allocate(matrix, GpuRequest(1, None, frozenset({1})), sparing).devices == (1,)


def test_the_mode_decides_between_paths_behind_equal_nvlinks() -> None:
    nvlinks = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    matrix = matrix_of(nvlinks, [["X", "SYS", "SYS"], ["SYS", "X", "PIX"], ["SYS", "PIX", "X"]])
    assert allocate(matrix, GpuRequest(2)) == GpuAllocation((1, 2), 150, 150)
    by_word = allocate(matrix, GpuRequest(2), LinkOptions(mode=LinkMode.MATRIX))
    assert by_word == GpuAllocation((0, 1), 100, 100)


def test_questions_too_large_are_answered_without_a_proof() -> None:
    matrix = of_nvlinks([[abs(i - j) for j in range(24)] for i in range(24)])
    found = allocate(matrix, GpuRequest(4, None, frozenset({3})))
    assert (len(found.devices), found.is_optimal, 3 in found.devices) == (4, False, True)
    assert found == allocate(matrix, GpuRequest(4, None, frozenset({3})))


def test_the_lowest_gpu_that_is_wrong_is_named() -> None:
    matrix = read_links("GPU9 GPU16\nGPU9 X NV1\nGPU16 NV1 X")
    with pytest.raises(LinkError, match="GPU3: available, but not in the matrix, which has 9, 16"):
        allocate(matrix, GpuRequest(1, frozenset({16, 9, 24, 3})))
    with pytest.raises(LinkError, match="GPU3: available, but not in the matrix, which has none"):
        allocate(of_nvlinks([]), GpuRequest(1, frozenset({3})))
    assert allocate(matrix, GpuRequest(1, None, frozenset({24, 3}))).rejected == "required: GPU3 is not available"
    assert allocate(matrix, GpuRequest(2)).devices == (9, 16)


def test_only_best_effort_spares_links() -> None:
    matrix = of_nvlinks([[0, 4, 0], [4, 0, 0], [0, 0, 0]])
    assert allocate(matrix, GpuRequest(1), LinkOptions(LinkPolicy.SIMPLE, spares_links=True)).devices == (0,)


def test_all_of_a_static_set_may_be_required() -> None:
    volta = LinkOptions(LinkPolicy.STATIC_DGX1_VOLTA)
    assert allocate(kep_690(), GpuRequest(2, None, frozenset({4, 7})), volta).devices == (4, 7)


def without(gpu: int, count: int = 4) -> LinkMatrix:
    """GPUs behind NVSwitches of which one has no NVLink."""
    return of_nvlinks([[18 if i != j and gpu not in (i, j) else 0 for j in range(count)] for i in range(count)])


@pytest.mark.parametrize("options", [LinkOptions(), LinkOptions(spares_links=True), LinkOptions(from_all_cuts=True)])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_gpu_whose_nvlinks_are_down_is_given_last(options: LinkOptions, size: int) -> None:
    found = [allocate(without(gpu), GpuRequest(size), options).devices for gpu in range(4)]
    assert [gpu in devices for gpu, devices in enumerate(found)] == [False] * 4
    assert allocate(without(0), GpuRequest(4), options).devices == (0, 1, 2, 3)
    assert allocate(without(0), GpuRequest(1, frozenset({0})), options).devices == (0,)
    assert allocate(without(0), GpuRequest(1, None, frozenset({0})), options).devices == (0,)


def test_the_policy_simple_knows_no_gpu_that_is_last() -> None:
    assert allocate(without(0), GpuRequest(1), SIMPLE).devices == (0,)
