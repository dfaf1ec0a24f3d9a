"""A recipe's pod, configuration and scenario are the same thing three times, and it does what it promises."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from cri_proxy.cli.main import run_command
from cri_proxy.config.load import parse_config
from cri_proxy.simulate.manifests import qos_of_pod, read_manifests
from cri_proxy.simulate.run_files import run_texts
from policies.base import QosClass
from tests.golden.costs_page import ROOT, answered
from tests.golden.recipes_page import PAGE, Recipe, recipes

RECIPES = list(recipes(PAGE.read_text()))
EACH = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
Plain = Mapping[str, object]


def scenario(recipe: Recipe) -> Plain:
    read: Plain = yaml.safe_load((ROOT / recipe.file).read_text())
    return read


def created(recipe: Recipe, name: str) -> Plain:
    """The pod of this name that the scenario makes."""
    steps = scenario(recipe)["steps"]
    assert isinstance(steps, list)
    return next(step["create"] for step in steps if step.get("create", {}).get("pod") == name)


def asked(containers: object) -> dict[str, dict[str, object]]:
    """What containers of a scenario ask for, in a manifest's words."""
    assert isinstance(containers, list)
    plain = ("cpu", "memory")
    return {
        each["name"]: {key: each[key] for key in plain}
        | {f"hugepages-{size}": amount for size, amount in each.get("hugepages", {}).items()}
        for each in containers
    }


def by_container(annotations: object) -> dict[tuple[str, str], str]:
    """Annotations as (key, container or ''), however they are spelt: a narrow key, or a map by container."""
    assert isinstance(annotations, dict)
    found: dict[tuple[str, str], str] = {}
    for key, value in annotations.items():
        head, _, name = key.partition("/")
        read = yaml.safe_load(value)
        if name.startswith("container."):
            found[head.removesuffix(".cri-proxy.io"), name.removeprefix("container.")] = str(read)
        elif isinstance(read, dict):
            found |= {(name, container): str(each) for container, each in read.items()}
        else:
            found[name, ""] = str(read)
    return found


def test_the_page_shows_what_its_commands_answer(tmp_path: Path) -> None:
    """After a change that was meant: ``python -m tests.golden.recipes_page`` writes the answers."""
    page = PAGE.read_text()
    assert answered(page, tmp_path) == page


def test_every_recipe_is_on_the_page() -> None:
    assert sorted(recipe.file for recipe in RECIPES) == sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / "configs" / "recipes").glob("*.yaml")
    )


@EACH
def test_a_recipe_does_what_it_expects(recipe: Recipe) -> None:
    (performed,) = run_texts([(recipe.file, (ROOT / recipe.file).read_text())])
    assert performed.is_good, performed.text
    assert [outcome.error for outcome in performed.outcomes if not outcome.ok] == []
    assert any(outcome.is_expectation for outcome in performed.outcomes)


@EACH
def test_the_scenario_plays_the_configuration_of_the_page(recipe: Recipe) -> None:
    assert yaml.safe_load(recipe.config) == scenario(recipe)["config"]
    parse_config(recipe.config)


@EACH
def test_the_scenario_plays_the_pod_of_the_page(recipe: Recipe) -> None:
    pod = yaml.safe_load(recipe.manifest)
    made = created(recipe, pod["metadata"]["name"])
    assert by_container(pod["metadata"].get("annotations", {})) == by_container(made.get("annotations", {}))
    shown = {
        each["name"]: {key: amount for key, amount in each["resources"]["limits"].items() if ".com/" not in key}
        for each in pod["spec"]["containers"]
    }
    assert shown == asked(made["containers"])
    assert all(each["resources"]["requests"] == each["resources"]["limits"] for each in pod["spec"]["containers"])


@EACH
def test_the_pod_of_the_page_passes_lint_and_is_guaranteed(
    recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(recipe.manifest)
    assert run_command(["lint", str(file)]) == 0
    assert capsys.readouterr().out == "1 pod checked, 0 problems\n"
    (pod,) = read_manifests(recipe.manifest)
    assert qos_of_pod(pod)[0] is QosClass.GUARANTEED
