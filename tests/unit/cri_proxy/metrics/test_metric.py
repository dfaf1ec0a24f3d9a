from cri_proxy.metrics.metric import Label, counter, gauge, histogram

KIND = Label("kind", ("a", "b"))
SIDE = Label("side", ("x", "y"))
NODE = Label("numa_node", bound="the machine's")


def test_every_combination_of_a_counters_closed_labels_starts_at_zero() -> None:
    assert counter("c_total", "C.", KIND, SIDE).zeros == (("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"))
    assert counter("c_total", "C.").zeros == ((),)


def test_a_counter_may_name_what_starts_at_zero_and_starts_none_where_the_machine_decides() -> None:
    assert counter("c_total", "C.", KIND, zeros=(("a",),)).zeros == (("a",),)
    assert counter("c_total", "C.", KIND, NODE).zeros == ()


def test_a_histogram_starts_at_zero_with_its_buckets_and_a_gauge_with_nothing() -> None:
    found = histogram("h_seconds", "H.", (0.1, 1.0), KIND)
    assert (found.kind, found.buckets, found.zeros) == ("histogram", (0.1, 1.0), (("a",), ("b",)))
    assert (gauge("g", "G.", KIND).kind, gauge("g", "G.", KIND).zeros) == ("gauge", ())
