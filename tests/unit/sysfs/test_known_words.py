import subprocess
import sys

from sysfs.known_words import TYPING_ERROR, did_you_mean, none_of, similar


def test_the_known_word_that_is_most_like_an_unknown_one_is_found() -> None:
    assert similar("gup", ("gpu", "rdma")) == "gpu"


def test_where_no_known_word_is_like_it_none_is_found() -> None:
    assert similar("fpga", ("gpu", "rdma")) == ""
    assert similar("gpus", ("gpu",), least=0.9) == ""


def test_the_remedy_for_an_unknown_word_is_the_nearest_one_or_all_that_are_known() -> None:
    assert did_you_mean("gup", ("gpu", "rdma")) == "did you mean gpu?"
    assert did_you_mean("x", iter(("gpu", "rdma"))) == "known: gpu, rdma"
    assert did_you_mean("amd.com/gpu", ("dcu.com/gpu",), "ask for another", TYPING_ERROR) == "ask for another"


def test_a_word_that_is_none_of_a_few_is_shown_beside_them_and_cut() -> None:
    assert none_of("x" * 50, iter(("gpu",))) == f"expected one of gpu, got '{'x' * 39}…'"


def test_what_compares_words_is_not_loaded_before_a_mistake() -> None:
    """In a process of its own: this one has it already."""
    loaded = "import sys, cri_proxy.daemon.engine; print('difflib' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "False\n"
    )
