from dataclasses import fields

from policies.preferences import Preferences


def test_without_annotations_nothing_is_asked_for() -> None:
    asked = Preferences()
    assert [field.name for field in fields(asked) if getattr(asked, field.name)] == []
