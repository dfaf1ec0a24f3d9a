from cri_proxy.cri.annotations.cpu_memory_rows import CPU_MEMORY_ROWS, PREFER_ISOLATED, chosen
from cri_proxy.cri.annotations.table import TABLE


def test_the_table_begins_with_these_rows_in_their_order() -> None:
    assert TABLE[: len(CPU_MEMORY_ROWS)] == CPU_MEMORY_ROWS
    assert CPU_MEMORY_ROWS[0] is PREFER_ISOLATED


def test_a_choice_that_was_not_made_has_no_words() -> None:
    assert [chosen(value, "yes", "no") for value in (True, False, None)] == ["yes", "no", ""]
