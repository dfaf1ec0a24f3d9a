import subprocess
import sys

from policies.known_words import similar


def test_the_known_word_that_is_most_like_an_unknown_one_is_found() -> None:
    assert similar("gup", ("gpu", "rdma")) == "gpu"


def test_where_no_known_word_is_like_it_none_is_found() -> None:
    assert similar("fpga", ("gpu", "rdma")) == ""
    assert similar("gpus", ("gpu",), least=0.9) == ""


def test_what_compares_words_is_not_loaded_before_a_mistake() -> None:
    """In a process of its own: this one has it already."""
    loaded = "import sys, cri_proxy.daemon.engine; print('difflib' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "False\n"
    )
