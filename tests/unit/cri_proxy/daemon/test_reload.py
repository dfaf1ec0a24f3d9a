from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.config.files.location import ConfigLocation, Source
from cri_proxy.config.last_known_good import KnownGood
from cri_proxy.config.load import load_source, parse_config
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option import Known
from cri_proxy.config.settings import Fallback, Settings, settings_for
from cri_proxy.config.values import with_values
from cri_proxy.daemon.reload import Reloader, split_by_restart
from cri_proxy.errors import ConfigError
from tests.fakes.clock import ManualClock
from tests.fakes.reloads import Heard

FILE = Path("/etc/cri-proxy/cri-proxy.yaml")
OLD = "adopt: leave\nlog: {level: info}\n"


def settings_of(text: str, *overrides: tuple[str, object]) -> Settings:
    place, source = ConfigLocation(FILE), Source(FILE, text)
    given = tuple((known, value) for key, value in overrides for known in known_options() if known.key == key)
    loaded = load_source(place, source)
    settings = settings_for(with_values(loaded.config, given))
    return replace(settings, location=place, source=source, overrides=given, from_file=loaded.config)


def kept_settings(found: str) -> Settings:
    """Of a start that found this in the file, and went on with the old one."""
    kept = KnownGood(parse_config(OLD), FILE, FILE, "", Source(FILE, OLD).digest, 5.0)
    instead = Fallback(kept, ConfigError(str(FILE), 2, "adpot", "unknown option; did you mean adopt?"))
    return replace(settings_of(OLD), source=Source(FILE, found), fallback=instead)


class Scene:
    """A daemon's configuration; ``refusal`` is what the node says to the next one."""

    def __init__(self, settings: Settings) -> None:
        self.journal = Heard()
        self.told: list[str] = []
        self.applied: list[tuple[Config, tuple[str, ...]]] = []
        self.kept: list[KnownGood] = []
        self.refusal = ""
        self.fault: Exception | None = None
        self.reloader = Reloader(
            settings,
            self._apply,
            self.kept.append,
            clock=ManualClock(),
            journal=self.journal,
            tell=self.told.append,
        )

    async def _apply(self, config: Config, said: Sequence[str]) -> str:
        if self.fault is not None:
            raise self.fault
        if not self.refusal:
            self.applied.append((config, tuple(said)))
        return self.refusal

    async def take(self, text: str = OLD, *, asked: bool = False, problem: str = "") -> str:
        """The outcome of finding this."""
        await self.reloader.take(Source(FILE, text, problem=problem), asked)
        last = self.reloader.view().last
        return last.outcome if last is not None else ""


@pytest.fixture
def scene() -> Scene:
    return Scene(settings_of(OLD))


async def test_options_of_the_command_line_are_told_before_and_after_a_reload() -> None:
    scene = Scene(settings_of(OLD, ("adopt", "pin"), ("http", "off")))
    assert scene.reloader.view().overridden == ("adopt", "http")
    assert await scene.take("adopt: leave\nstrictAnnotations: true") == "applied"
    assert scene.reloader.view().overridden == ("adopt", "http")


async def test_a_valid_one_is_applied_whole(scene: Scene) -> None:
    assert await scene.take("adopt: pin\nstrictAnnotations: true") == "applied"
    ((config, said),) = scene.applied
    assert (config.adopt, config.strict_annotations, said) == ("pin", True, ())
    assert scene.reloader.config == config
    assert scene.reloader.view().digest == Source(FILE, "adopt: pin\nstrictAnnotations: true").digest


async def test_warnings_about_the_file_come_with_it_and_are_not_looked_for_again(scene: Scene) -> None:
    """Of mounts and modes, which only a thread may look at."""
    await scene.reloader.take(Source(FILE, "adopt: pin", warnings=("a bind mount",)), False)
    assert scene.applied[0][1] == scene.reloader.file_warnings == ("a bind mount",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("adopt: pin\nadpot: x", f"{FILE}:2: adpot: unknown option; did you mean adopt?"),
        ("log: {level: loud}", f"{FILE}:1: log.level: expected one of debug, info"),
        ("a: [", "not YAML"),
        ("imageListen: /a", "imageListen: needs imageEndpoint as well"),
        (" \n", "is empty now: write {} if the defaults are meant"),
    ],
)
async def test_an_invalid_one_changes_nothing_and_the_reason_is_told_everywhere(
    scene: Scene, text: str, reason: str
) -> None:
    before = scene.reloader.config, scene.reloader.view().digest
    assert await scene.take(text) == "rejected"
    assert (scene.reloader.config, scene.reloader.view().digest, scene.applied) == (*before, [])
    last = scene.reloader.view().last
    assert last is not None
    said = [*scene.reloader.warnings(), last.reason, str(scene.journal.fields("config_rejected")["reason"])]
    assert [reason in text for text in said] == [True] * 3


async def test_what_cannot_be_read_changes_nothing(scene: Scene) -> None:
    assert await scene.take("", problem="cannot read: No such file or directory") == "rejected"
    assert scene.reloader.config.adopt == "leave"


async def test_what_the_node_refuses_changes_nothing(scene: Scene) -> None:
    scene.refusal = "the change leaves no room for web/c0; nothing was changed"
    assert await scene.take("adopt: pin") == "rejected"
    assert scene.reloader.config.adopt == "leave"
    assert "no room for web/c0" in scene.reloader.warnings()[0]


async def test_what_the_node_refused_is_applied_when_it_is_found_again_and_fits(scene: Scene) -> None:
    """A refused configuration is not the wanted one: the same text later is no "unchanged", which would be saved."""
    scene.refusal = "the change leaves no room for web/c0; nothing was changed"
    assert [await scene.take("adopt: pin") for _ in range(2)] == ["rejected"] * 2
    assert (scene.kept, scene.reloader.view().is_kept) == ([], False)
    scene.refusal = ""
    assert await scene.take("adopt: pin") == "applied"
    assert [config.adopt for config, _ in scene.applied] == ["pin"]


async def test_the_old_one_found_again_after_a_refusal_moves_nobody(scene: Scene) -> None:
    scene.refusal = "no room"
    await scene.take("adopt: pin\nstateDir: /elsewhere")
    assert scene.reloader.view().needs_restart == ()
    scene.refusal = ""
    assert await scene.take() == "unchanged"
    assert (scene.applied, scene.reloader.config.adopt) == ([], "leave")


async def test_what_failed_by_a_fault_of_ours_is_applied_when_it_is_found_again(scene: Scene) -> None:
    scene.fault = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await scene.take("adopt: pin")
    scene.fault = None
    assert await scene.take("adopt: pin") == "applied"


async def test_a_text_that_means_the_same_moves_nobody(scene: Scene) -> None:
    assert await scene.take(f"# more words\n{OLD}") == "unchanged"
    assert scene.applied == []
    assert scene.reloader.view().digest == Source(FILE, f"# more words\n{OLD}").digest


async def test_the_old_one_put_back_ends_the_warning(scene: Scene) -> None:
    await scene.take("nonsense")
    assert await scene.take() == "unchanged"
    assert scene.reloader.warnings() == ()


async def test_who_asks_has_the_same_one_applied_again(scene: Scene) -> None:
    assert await scene.take(asked=True) == "applied"
    assert [config.adopt for config, _ in scene.applied] == ["leave"]


async def test_an_empty_file_is_taken_where_it_was_empty_before() -> None:
    assert await Scene(settings_of("")).take("", asked=True) == "applied"


async def test_the_command_line_beats_the_new_file_too() -> None:
    scene = Scene(settings_of(OLD, ("policy", "none")))
    await scene.take("policy: topology-aware\nadopt: pin")
    assert (scene.reloader.config.policy, scene.reloader.config.adopt) == ("none", "pin")


async def test_what_is_read_at_start_only_keeps_its_value_and_the_rest_is_applied(scene: Scene) -> None:
    assert await scene.take("adopt: pin\nstateDir: /elsewhere") == "applied"
    ((config, said),) = scene.applied
    assert (config.adopt, config.state_dir) == ("pin", "/var/lib/cri-proxy")
    assert said == ("stateDir: /var/lib/cri-proxy stays until a restart; the configuration says /elsewhere",)
    assert scene.reloader.view().needs_restart == ("stateDir",)
    assert scene.journal.fields("config_reloaded")["restart_for"] == ["stateDir"]


async def test_who_takes_it_back_needs_no_restart(scene: Scene) -> None:
    await scene.take("stateDir: /elsewhere")
    await scene.take("adopt: pin")
    assert scene.reloader.view().needs_restart == ()


@pytest.mark.parametrize("known", [k for k in known_options() if not k.option.is_reloadable], ids=lambda k: k.key)
def test_every_option_that_does_not_reload_is_held_back(known: Known) -> None:
    texts = {"relay": "grpc", "http": "off", "nodeName": "n", "nodeGroup": "g", "extender": "true"}
    *groups, name = known.key.split(".")
    text = "".join(f"{{{group}: " for group in groups) + f"{{{name}: {texts.get(known.key, '/x')}}}" + "}" * len(groups)
    wanted = load_source(ConfigLocation(FILE), Source(FILE, text)).config
    config, late = split_by_restart(Config(), wanted)
    assert config == Config()
    assert [each.key for each in late] == [known.key]


@pytest.mark.parametrize("text", ["adopt: pin", "nonsense", OLD])
async def test_systemd_hears_of_the_beginning_and_the_end(scene: Scene, text: str) -> None:
    await scene.take(text)
    begin, end = scene.told
    assert begin.startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert begin.rpartition("=")[2].isdigit()
    assert end == "READY=1"


async def test_a_fault_of_ours_does_not_leave_systemd_waiting(scene: Scene) -> None:
    scene.fault = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await scene.take("adopt: pin")
    assert scene.told[-1] == "READY=1"
    assert "an internal error" in scene.reloader.warnings()[0]


async def test_reloads_are_counted_by_outcome(scene: Scene) -> None:
    for text in ("adopt: pin", "nonsense", "x: 1", "adopt: pin # same"):
        await scene.take(text)
    view = scene.reloader.view()
    assert (view.applied, view.unchanged, view.rejected) == (1, 1, 2)


async def test_without_a_file_asking_applies_the_command_line_again() -> None:
    scene = Scene(settings_for(Config()))
    await scene.reloader.take(Source(Path("command line"), ""), True)
    view = scene.reloader.view()
    assert (view.file, view.digest, view.applied, len(scene.applied)) == ("", "", 1, 1)


async def test_what_is_in_force_is_kept_without_the_command_lines_part() -> None:
    scene = Scene(settings_of(OLD, ("policy", "none")))
    assert scene.reloader.in_force.config == parse_config(OLD)
    text = "adopt: pin\nlog: {level: debug}"
    await scene.take(text)
    (kept,) = scene.kept
    assert (kept.config, kept.digest, kept.path) == (parse_config(text), Source(FILE, text).digest, FILE)


async def test_what_waits_for_a_restart_is_not_kept_as_if_it_were_in_force(scene: Scene) -> None:
    await scene.take("adopt: pin\nstateDir: /elsewhere")
    assert scene.kept[0].config == parse_config("adopt: pin")


async def test_what_is_rejected_is_not_kept(scene: Scene) -> None:
    await scene.take("nonsense")
    scene.refusal = "no room"
    await scene.take("adopt: pin")
    assert scene.kept == []
    assert scene.reloader.in_force.config == parse_config(OLD)


async def test_another_text_that_means_the_same_is_kept_with_its_digest(scene: Scene) -> None:
    await scene.take(f"# more words\n{OLD}")
    assert scene.kept[0].digest == scene.reloader.view().digest == Source(FILE, f"# more words\n{OLD}").digest


async def test_without_a_file_nothing_is_kept() -> None:
    scene = Scene(settings_for(Config()))
    await scene.reloader.take(Source(Path("command line"), ""), True)
    assert scene.kept == []


async def test_a_start_on_what_was_kept_is_told_until_something_is_taken() -> None:
    scene = Scene(kept_settings("adpot: pin"))
    view = scene.reloader.view()
    assert (view.is_kept, view.rejected, view.digest) == (True, 1, Source(FILE, OLD).digest)
    (said,) = scene.reloader.warnings()
    assert "adpot: unknown option; did you mean adopt?" in said
    assert await scene.take("still: wrong") == "rejected"
    assert scene.reloader.view().is_kept
    assert "still: unknown option" in scene.reloader.warnings()[0]
    assert await scene.take("adopt: pin") == "applied"
    assert (scene.reloader.view().is_kept, scene.reloader.warnings()) == (False, ())
    assert [kept.config for kept in scene.kept] == [parse_config("adopt: pin")]


async def test_the_kept_one_back_in_the_file_ends_it_and_moves_nobody() -> None:
    scene = Scene(kept_settings("adpot: pin"))
    assert await scene.take(OLD) == "unchanged"
    assert (scene.applied, scene.reloader.view().is_kept, scene.reloader.warnings()) == ([], False, ())


async def test_a_file_that_was_emptied_before_the_start_is_refused_by_the_reload_as_well() -> None:
    assert await Scene(kept_settings("")).take("", asked=True) == "rejected"
