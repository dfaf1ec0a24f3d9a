from dataclasses import FrozenInstanceError
from typing import get_origin

import pytest

from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option import Known, read_value
from cri_proxy.config.values import show_value, value_of
from cri_proxy.cri.annotations.rules import DOMAINS, AnnotationRules
from policies.options import PolicyOptions
from policies.registry import POLICIES


@pytest.mark.parametrize("known", known_options(), ids=lambda k: k.key)
def test_every_option_says_what_it_means(known: Known) -> None:
    assert known.option.text
    assert known.option.key


@pytest.mark.parametrize("known", [k for k in known_options() if k.default not in (None, "")], ids=lambda k: k.key)
def test_every_default_is_a_value_that_may_be_written(known: Known) -> None:
    raw = tuple(map(str, known.default)) if isinstance(known.default, tuple) else show_value(known.default)
    assert read_value(known, raw) == known.default == value_of(Config(), known)


def test_keys_and_flags_are_unique() -> None:
    keys = [".".join(path).casefold() for known in known_options() for path in known.paths]
    flags = [known.option.flag for known in known_options() if known.option.flag]
    assert len(keys) == len(set(keys))
    assert len(flags) == len(set(flags))


def test_a_default_is_among_its_choices() -> None:
    choices = [k for k in known_options() if get_origin(k.type) is not tuple and isinstance(k.default, str)]
    assert all(k.default in k.choices for k in choices if k.choices)


def test_every_registered_policy_can_be_chosen_and_configured() -> None:
    (policy,) = (known for known in known_options() if known.key == "policy")
    assert policy.choices == tuple(registered.name for registered in POLICIES)
    models = {registered.group: registered.options for registered in POLICIES}
    for group, model in models.items():
        own = {name for name in model.__dataclass_fields__ if name not in PolicyOptions.__dataclass_fields__}
        assert {known.names[-1] for known in known_options() if known.path[0] == group} == own


def test_the_default_domains_are_those_that_annotations_know() -> None:
    assert Config().annotation_domains == DOMAINS
    assert Config().annotation_rules == AnnotationRules()


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().log.level = "debug"  # type: ignore[misc]  # the point of the test
