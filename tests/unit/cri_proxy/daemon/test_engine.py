import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.config.last_known_good import KNOWN_GOOD, KnownGood
from cri_proxy.config.load import parse_config
from cri_proxy.config.settings import Settings, settings_for
from cri_proxy.daemon.engine import Engine
from cri_proxy.errors import CriProxyError, StoreError
from cri_proxy.file_workers import FilesFailed
from policies.errors import PolicyBaseError
from tests.fakes.machines import small_machine
from tests.fakes.site import Silent

MACHINE = small_machine()
GOOD = 'availableResources: {cpu: "cpuset:0-7"}\nreservedResources: {cpu: 1}\n'
BROKEN = GOOD.replace("0-7", "64-65")  # not on this machine


def settings_in(directory: Path, text: str) -> Settings:
    file, config = directory / "config.yaml", parse_config(f"{text}stateDir: {directory}\n")
    return replace(settings_for(config), location=ConfigLocation(file), from_file=config)


def test_it_is_built_for_the_machine_that_it_is_given(tmp_path: Path) -> None:
    engine = Engine(settings_in(tmp_path, GOOD), Silent(), MACHINE)
    assert engine.machine.online == MACHINE.online
    assert engine.settings.fallback is None


def test_what_was_kept_is_in_force_where_the_file_cannot_be_and_that_is_said_loudly(tmp_path: Path) -> None:
    settings, log = settings_in(tmp_path, BROKEN), Silent()
    file, kept = tmp_path / "config.yaml", parse_config(f"{GOOD}stateDir: {tmp_path}\n")
    KNOWN_GOOD.save(tmp_path, KnownGood(kept, file, file, "", "0" * 64, 5.0))
    assert Engine(settings, log, MACHINE).settings.config == kept
    assert any("config_kept" in error and "64-65" in error for error in log.errors)


def test_without_anything_kept_it_cannot_be_built(tmp_path: Path) -> None:
    with pytest.raises((CriProxyError, PolicyBaseError), match="64-65"):
        Engine(settings_in(tmp_path, BROKEN), Silent(), MACHINE)


async def test_a_store_that_a_newer_program_wrote_is_not_touched(tmp_path: Path) -> None:
    engine = Engine(settings_in(tmp_path, GOOD), Silent(), MACHINE)
    await engine.require_readable_store()  # none yet
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="start the newer program"):
        await engine.require_readable_store()


async def test_a_store_that_does_not_answer_is_not_waited_for_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, freed = Engine(settings_in(tmp_path, GOOD), Silent(), MACHINE), threading.Event()
    monkeypatch.setattr("cri_proxy.daemon.engine.STORE_LOOK_SECONDS", 0.05)
    monkeypatch.setattr("cri_proxy.daemon.engine.require_known_version", lambda path: freed.wait(60))
    with pytest.raises(FilesFailed, match=f"{tmp_path}: no answer within"):
        await engine.require_readable_store()
    freed.set()
