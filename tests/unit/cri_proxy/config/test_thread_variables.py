import pytest

from cri_proxy.config.thread_variables import VARIABLES, variable_name


@pytest.mark.parametrize("name", [*VARIABLES, "_x", "a" * 64])
def test_names_are_those_of_posix(name: str) -> None:
    assert variable_name(name) == name


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=1", "A\n", "Ä", "a" * 65, "LD_PRELOAD", "PATH", "BASH_ENV"])
def test_what_no_thread_count_is_read_from_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        variable_name(name)
