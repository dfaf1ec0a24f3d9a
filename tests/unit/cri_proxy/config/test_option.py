"""What options say of themselves."""

import pytest

from cri_proxy.config.model import Known, known_options
from cri_proxy.config.option import Option


def test_an_option_reloads_and_is_no_mapping_unless_it_says_so() -> None:
    option = Option("key", "text")
    assert (option.is_reloadable, option.takes_mapping, option.flag) == (True, False, "")


@pytest.mark.parametrize("known", [k for k in known_options() if k.option.takes_mapping], ids=lambda k: k.key)
def test_an_option_that_takes_a_mapping_reads_entries_and_says_so(known: Known) -> None:
    assert known.option.read is not None
    assert "mapping" in known.option.values
