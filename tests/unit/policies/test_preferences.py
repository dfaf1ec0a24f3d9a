from dataclasses import fields

from policies.preferences import Preferences, ThreadCounts


def test_without_annotations_nothing_is_asked_for() -> None:
    asked = Preferences()
    assert [field.name for field in fields(asked) if getattr(asked, field.name)] == []


def test_thread_counts_follow_what_an_annotation_can_name() -> None:
    assert [kind.value for kind in ThreadCounts] == ["none", "owned", "request"]
