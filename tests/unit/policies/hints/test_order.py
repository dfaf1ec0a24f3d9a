from policies.hints.order import MaskOrder

DISTANCES = ((10, 21, 12), (21, 10, 12), (12, 12, 10))


def test_the_best_mask_has_the_fewest_nodes_and_then_the_lowest_ones() -> None:
    order = MaskOrder(0b111)
    assert order.best([0b111, 0b110, 0b101]) == 0b101
    assert order.best([]) == 0


def test_with_distances_the_closest_of_the_same_size_is_best() -> None:
    order = MaskOrder(0b111, DISTANCES)
    assert order.best([0b011, 0b101, 0b110]) == 0b101
    assert order.best([0b011, 0b100]) == 0b100


def test_a_size_that_no_mask_has_gives_none() -> None:
    assert MaskOrder(0b111).best_of_size([0b1, 0b10], 2) == 0
    assert MaskOrder(0b111, DISTANCES).best_of_size([0b1, 0b10], 2) == 0
