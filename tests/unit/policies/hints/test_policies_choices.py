from policies.hints import Hint, HintOrigin, Hints, Offers
from policies.hints.model import NO_RESOURCE
from policies.hints.policies import Choices, choices_of


def of_cpus(hints: Hints) -> Choices:
    _, found = choices_of([None, {"cpu": hints}])
    return found


CPU = of_cpus((Hint(0b01, True), Hint(0b01, False), Hint(0b110, False), Hint(None, False)))


def test_every_resource_counts_as_a_provider_of_its_own() -> None:
    hints = (Hint(1, True),)
    offers: list[Offers] = [{"cpu": hints, "memory": hints}, {"gpu": hints, "nic": None}]
    assert [(found.provider, found.resource) for found in choices_of(offers)] == [
        (0, "cpu"),
        (0, "memory"),
        (1, "gpu"),
        (1, "nic"),
    ]


def test_no_opinion_is_any_node_preferred_and_no_possibility_is_any_node_not_preferred() -> None:
    offers: list[Offers] = [None, {}, {"cpu": None, "gpu": ()}]
    assert [(found.resource, found.any_flags) for found in choices_of(offers)] == [
        (NO_RESOURCE, frozenset({True})),
        (NO_RESOURCE, frozenset({True})),
        ("cpu", frozenset({True})),
        ("gpu", frozenset({False})),
    ]


def test_hints_become_masks_by_flag() -> None:
    assert (set(CPU.preferred), set(CPU.others), set(CPU.any_flags)) == ({0b01}, {0b01, 0b110}, {False})


def test_a_hint_for_no_node_is_not_one_for_any() -> None:
    none = of_cpus((Hint(0, True), Hint(0, False)))
    assert (set(none.preferred), set(none.others), set(none.any_flags)) == ({0}, {0}, set())


def test_nodes_beyond_the_machine_are_cut_off_and_any_is_the_whole_machine() -> None:
    assert CPU.within(0b11) == {0b01, 0b10, 0b11}


def test_the_narrowest_mask_counts_nodes_beyond_the_machine_and_not_any() -> None:
    assert CPU.narrowest() == 1
    assert of_cpus((Hint(0b110, True),)).narrowest() == 2
    assert of_cpus((Hint(None, True),)).narrowest() == 0


def test_an_origin_is_the_hint_as_it_was_offered() -> None:
    assert CPU.origin(0b01, preferred=False) == HintOrigin(1, "cpu", Hint(0b01, False))
    assert CPU.origin(0b10, preferred=False) == HintOrigin(1, "cpu", Hint(None, False))


def test_the_origin_of_a_clipped_mask_has_the_nodes_beyond_and_a_preferred_one_comes_first() -> None:
    assert CPU.origin_within(0b10, 0b11).hint == Hint(0b110, False)
    assert CPU.origin_within(0b01, 0b11).hint == Hint(0b01, True)
    assert CPU.origin_within(0b11, 0b11).hint == Hint(None, False)
