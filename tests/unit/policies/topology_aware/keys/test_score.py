from policies.topology_aware.keys.score import WHY_WORSE, Key, deciding_field, ranked

EQUAL = Key(1, 0, 0, 0.0, 0.0, 0, 2, 2, 3, 0, 0, -1, 1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, (3000,), -3)


def test_fields_are_compared_in_the_documented_order() -> None:
    assert Key._fields == (
        "fits", "previous", "isolated",
        "affinity", "hints", "hint_distance",
        "memory", "hugepages", "memory_suits",
        "width", "crowded",
        "near_memory", "priority", "depth", "cpu_domains",
        "undisturbed", "cores",
        "choice", "squeezed", "pod", "expected", "spares", "quiet", "left", "first",
    )  # fmt: skip


def plus(value: float | tuple[int, ...], more: int) -> float | tuple[int, ...]:
    return tuple(each + more for each in value) if isinstance(value, tuple) else value + more


def test_an_earlier_field_beats_all_later_ones() -> None:
    for i in range(len(Key._fields)):
        better = Key._make([*EQUAL[:i], plus(EQUAL[i], 1), *EQUAL[i + 1 :]])
        assert better > Key._make([*EQUAL[: i + 1], *(plus(value, 100) for value in EQUAL[i + 1 :])])


def test_the_first_difference_decides_and_has_words() -> None:
    assert deciding_field(EQUAL, EQUAL._replace(depth=1, left=(9,))) == "depth"
    assert set(WHY_WORSE) == set(Key._fields)


def test_pools_are_told_best_first_with_their_fields() -> None:
    keys = {0: EQUAL, 1: EQUAL._replace(left=(4000, 20))}
    told = ranked(["a", "b"], keys, ["not tried", "chosen"], (1, 0))
    assert [(r.pool, r.outcome) for r in told] == [("b", "chosen"), ("a", "not tried")]
    assert [dict(each.key)["left"] for each in told] == ["4000/20", "3000"]
