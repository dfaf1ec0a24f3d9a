from policies.thread_counts import ThreadCounts


def test_thread_counts_follow_what_an_annotation_can_name() -> None:
    assert [kind.value for kind in ThreadCounts] == ["none", "owned", "request"]
