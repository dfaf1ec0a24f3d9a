import hashlib
from pathlib import Path

import pytest

from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.config.last_known_good import KNOWN_GOOD, KnownGood, find_known_good
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option import Known
from cri_proxy.config.settings import Settings
from cri_proxy.config.startup import fall_back, start_settings
from cri_proxy.errors import COMMAND_LINE, ConfigError

GOOD = "adopt: leave\nonStoreError: reject\n"
BAD = "adopt: leave\nadpot: pin\n"


def overrides(**texts: str) -> tuple[tuple[Known, object], ...]:
    return tuple((known, texts[known.key]) for known in known_options() if known.key in texts)


class Scene:
    """A file and a state directory, which the command line names."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "c.yaml"
        self.state = directory / "state"

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def keep(self, text: str = GOOD, *, path: Path | None = None) -> None:
        digest = hashlib.sha256(text.encode()).hexdigest()
        KNOWN_GOOD.save(self.state, KnownGood(parse_config(text), path or self.file, self.file, "", digest, 5.0))

    def start(self, **more: str) -> Settings:
        return start_settings(self.file, overrides(stateDir=str(self.state), **more))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_without_a_file_the_command_line_is_all_there_is() -> None:
    settings = start_settings(None, overrides(adopt="leave"))
    assert (settings.config.adopt, settings.location, settings.from_file) == ("leave", None, Config())


def test_the_file_is_taken_and_the_command_line_laid_over_it(scene: Scene) -> None:
    scene.keep("strictAnnotations: true")
    scene.write(GOOD)
    settings = scene.start(adopt="pin")
    assert (settings.config.adopt, settings.config.on_store_error) == ("pin", "reject")
    assert (settings.from_file, settings.fallback) == (parse_config(GOOD), None)


@pytest.mark.parametrize("text", [BAD, "a: [", "imageListen: /a", "log: {level: loud}", "\0", "  \n", ""])
def test_a_file_that_cannot_be_taken_leaves_in_force_what_was(scene: Scene, text: str) -> None:
    scene.keep()
    scene.write(text)
    settings = scene.start()
    assert settings.from_file == parse_config(GOOD)
    assert settings.fallback is not None
    assert settings.fallback.kept.since_seconds == 5.0
    assert settings.fallback.problem.path == str(scene.file)
    assert (settings.location, settings.source.text) == (ConfigLocation(scene.file, settings.node_name), text)


def test_a_file_that_is_gone_leaves_it_in_force_too(scene: Scene) -> None:
    scene.keep()
    settings = scene.start()
    assert settings.config.adopt == "leave"
    assert settings.fallback is not None
    assert "No such file" in str(settings.fallback.problem)


def test_the_problem_keeps_its_key_and_line(scene: Scene) -> None:
    scene.keep()
    scene.write(BAD)
    instead = scene.start().fallback
    assert instead is not None
    assert (instead.problem.line, instead.problem.key) == (2, "adpot")


def test_todays_command_line_is_laid_over_what_was_kept(scene: Scene) -> None:
    scene.keep()
    scene.write(BAD)
    assert scene.start(adopt="pin").config.adopt == "pin"


def test_a_first_start_says_what_is_wrong_and_ends(scene: Scene) -> None:
    scene.write(BAD)
    with pytest.raises(ConfigError, match=r"c.yaml:2: adpot: unknown option; did you mean adopt"):
        scene.start()
    assert not scene.state.exists()


def test_what_was_kept_of_another_configuration_is_none_of_this_ones(scene: Scene, tmp_path: Path) -> None:
    scene.keep(path=tmp_path / "other.yaml")
    scene.write(BAD)
    with pytest.raises(ConfigError, match="adpot"):
        scene.start()


def test_what_was_kept_and_cannot_be_used_is_named_beside_the_file(scene: Scene) -> None:
    scene.keep()
    scene.write(BAD)
    (scene.state / KNOWN_GOOD.name).chmod(0o666)
    with pytest.raises(ConfigError, match=r"c.yaml:2: adpot: .*; nor can what was in force .* chmod go-w"):
        scene.start()


def test_an_empty_file_that_was_empty_is_taken(scene: Scene) -> None:
    scene.keep("")
    scene.write("")
    assert scene.start().fallback is None


def test_a_first_start_with_an_empty_file_takes_the_defaults(scene: Scene) -> None:
    scene.write("")
    assert scene.start().from_file == Config()


def test_a_wrong_command_line_is_not_made_good_by_what_was_kept(scene: Scene) -> None:
    scene.keep()
    scene.write(GOOD)
    with pytest.raises(ConfigError, match="imageListen: needs imageEndpoint"):
        scene.start(imageListen="unix:///a")


def test_without_a_file_nothing_was_kept() -> None:
    assert fall_back(start_settings(None, ()), ConfigError(COMMAND_LINE, 0, "", "x")) is None


def test_a_start_changes_nothing_that_was_kept(scene: Scene) -> None:
    scene.keep()
    scene.write("adopt: pin")
    scene.start()
    kept = find_known_good(scene.state, scene.file)
    assert kept is not None
    assert kept.config == parse_config(GOOD)


def test_the_kubelets_name_chooses_the_file_where_no_option_does(tmp_path: Path) -> None:
    (tmp_path / "default.yaml").write_text(GOOD)
    (tmp_path / "node.pool-7.yaml").write_text("adopt: pin\n")
    state = overrides(stateDir=str(tmp_path / "state"))
    settings = start_settings(tmp_path, state, "pool-7")
    assert (settings.node_name, settings.config.adopt) == ("pool-7", "pin")
    given = start_settings(tmp_path, (*state, *overrides(nodeName="w1")), "pool-7")
    assert (given.node_name, given.config.adopt) == ("w1", "leave")
    assert start_settings(None, state, "pool-7").node_name == "pool-7"
