from sysfs.cpuset import CpuSet
from sysfs.text import numbered, plural, some


def test_one_thing_is_singular_and_no_thing_plural() -> None:
    assert [plural(count, "CPU") for count in (0, 1, 2)] == ["0 CPUs", "1 CPU", "2 CPUs"]


def test_a_set_of_one_is_singular() -> None:
    assert [numbered("CPU", CpuSet.parse(text)) for text in ("7", "0-1")] == ["CPU 7", "CPUs 0-1"]


def test_of_many_names_a_few_are_shown_and_the_others_counted() -> None:
    assert (some((), 2), some(("a", "b"), 2)) == ("", "a, b")
    assert some([str(number) for number in range(300)], 2, "; ") == "0; 1 and 298 more"
