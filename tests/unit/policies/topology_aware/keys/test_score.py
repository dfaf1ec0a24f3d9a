from policies.topology_aware.keys.score import WHY_WORSE, Key

EQUAL = Key(1, 0, 0, 0.0, 0.0, 0, 2, 2, 3, 0, 0, -1, 1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, (-3000,), 0, (4,), -3)


def test_fields_are_compared_in_the_documented_order() -> None:
    assert Key._fields == (
        "fits", "previous", "isolated",
        "affinity", "hints", "hint_distance",
        "memory", "hugepages", "memory_suits",
        "width", "crowded",
        "near_memory", "priority", "depth", "cpu_domains",
        "undisturbed", "cores",
        "choice", "squeezed", "pod", "expected", "spares", "quiet", "used", "full", "left", "first",
    )  # fmt: skip


def plus(value: float | tuple[int, ...], more: int) -> float | tuple[int, ...]:
    return tuple(each + more for each in value) if isinstance(value, tuple) else value + more


def test_an_earlier_field_beats_all_later_ones() -> None:
    for i in range(len(Key._fields)):
        better = Key._make([*EQUAL[:i], plus(EQUAL[i], 1), *EQUAL[i + 1 :]])
        assert better > Key._make([*EQUAL[: i + 1], *(plus(value, 100) for value in EQUAL[i + 1 :])])


def test_each_field_has_words() -> None:
    assert set(WHY_WORSE) == set(Key._fields)
