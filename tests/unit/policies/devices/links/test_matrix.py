import pytest

from policies.devices.links import Link, LinkError, matrix_of


def test_matrices_of_nvlinks_and_paths_make_one() -> None:
    found = matrix_of([[0, 2], [2, 0]], [["X", "PIX"], ["PIX", "X"]])
    assert found.indices == {0, 1}
    assert (found.link(0, 1), found.link(1, 0)) == (Link(2, "PIX"), Link(2, "PIX"))
    assert found.link(0, 1).word == "NV2"


def test_one_of_them_may_be_missing() -> None:
    assert matrix_of([[0, 2], [2, 0]], ()).link(0, 1) == Link(2)
    assert matrix_of((), [["X", "SYS"], ["SYS", "X"]]).link(1, 0) == Link(0, "SYS")
    assert matrix_of((), ()).gpus == ()


def test_directions_that_differ_are_an_error_that_names_the_pair() -> None:
    """The peer's scorer panics where two directions list different numbers of links."""
    with pytest.raises(LinkError, match=r"\ANV2: GPU1 to GPU0, and NV1 back; expected the same word\Z"):
        matrix_of([[0, 1], [2, 0]], ())
    with pytest.raises(LinkError, match=r"\APXB: GPU2 to GPU1, and PIX back"):
        matrix_of([[3] * 3] * 3, [["X", "SYS", "SYS"], ["SYS", "X", "PIX"], ["SYS", "PXB", "X"]])


def test_both_matrices_have_the_same_gpus_and_not_too_many() -> None:
    with pytest.raises(LinkError, match="nvlink: 2 rows, and pcie has 3"):
        matrix_of([[0] * 2] * 2, [["X"] * 3] * 3)
    with pytest.raises(LinkError, match="GPU256: 257 devices; at most 256 are read"):
        matrix_of([[0] * 257] * 257, ())


def test_an_error_names_line_and_column_where_it_knows_them() -> None:
    assert str(LinkError(2, 5, "NVX", "unknown")) == "line 2, column 5: NVX: unknown"
    assert str(LinkError(0, 0, "NVX", "unknown")) == "NVX: unknown"


def test_a_gpu_has_the_name_of_its_number() -> None:
    assert [gpu.name for gpu in matrix_of([[0] * 2] * 2, ()).gpus] == ["GPU0", "GPU1"]


def test_256_devices_are_not_too_many() -> None:
    assert len(matrix_of([[0] * 256] * 256, ()).gpus) == 256
