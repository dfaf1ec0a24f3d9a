from sysfs.cpuset import gathered


def test_values_stand_under_their_keys_in_the_order_given() -> None:
    found = gathered((len(word), word) for word in ("ccc", "a", "bbb", "b"))
    assert list(found.items()) == [(3, ["ccc", "bbb"]), (1, ["a", "b"])]


def test_no_pairs_make_no_keys() -> None:
    assert gathered(()) == {}
