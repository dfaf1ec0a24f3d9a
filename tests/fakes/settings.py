"""What a daemon on the small machine is started with: everything that it opens lies in one directory."""

from dataclasses import replace
from pathlib import Path

from cri_proxy.config.load import parse_config
from cri_proxy.config.settings import Settings, settings_for

CPUS = "cpuset:0-7"
TEXT = f"""
availableResources: {{cpu: "{CPUS}"}}
reservedResources: {{cpu: "cpuset:0"}}
http: "off"
listen: unix://DIR/proxy.sock
runtimeEndpoint: unix://DIR/runtime.sock
stateDir: DIR/state
"""
"""A configuration file for the directory DIR."""

EMBEDDED = TEXT.replace("unix://DIR/runtime.sock", "embedded")
BROKEN = TEXT.replace(CPUS, "cpuset:64-65")  # not on this machine


def settings_in(directory: Path, text: str = TEXT) -> Settings:
    """The settings that this text has for this directory."""
    return settings_for(parse_config(text.replace("DIR", str(directory))))


def settings_with(settings: Settings, **options: str) -> Settings:
    """The settings with these options, by their names in ``Config``."""
    return replace(settings, config=replace(settings.config, **options))  # type: ignore[arg-type]  # by name
