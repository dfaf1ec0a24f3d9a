"""Check all configurations of a manifest, a ConfigMap or a directory, for node, group and default, as a start would."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cri_proxy.bounded_yaml import Tree, word_at
from cri_proxy.cli.layers.report import CheckedConfig, resolve
from cri_proxy.cli.output import emit
from cri_proxy.config.addresses import optional_name
from cri_proxy.config.layouts import config_objects, config_trees, layers
from cri_proxy.config.load import load_trees
from cri_proxy.config.settings import settings_for
from cri_proxy.errors import CommandFailed, ConfigError
from cri_proxy.yaml_fields import DocumentError, YamlField
from sysfs.known_words import question, similar
from sysfs.text import plural

_EVERY_NODE: Final = "cri-proxy"
_DEFAULT: Final = "default"
_MAX_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReport(CheckedConfig):
    """One configuration of several: ``layer`` is node.NAME, group.NAME, default, or cri-proxy for every node."""

    layer: str = ""


@dataclass(frozen=True, slots=True)
class _Layer:
    """A configuration with the objects that it stands in."""

    file: str
    name: str
    trees: tuple[Tree, ...]


def run_all(args: argparse.Namespace) -> int:
    """Print a line for each configuration; 0 when all are valid. Raises CommandFailed."""
    reports = tuple(check_all(args.path, args.machine))
    emit(reports, args.output, render_layers)
    return 0 if all(report.valid for report in reports) else 1


def check_all(path: Path, machine: str = "") -> Iterator[LayerReport]:
    """Yield a report for each configuration below this path, '-' for standard input. Raises CommandFailed."""
    found = False
    for file, text in _texts(path):
        try:
            of_file = tuple(_layers_of(file, text))
        except ConfigError as error:
            found = True
            yield LayerReport(file=file, valid=False, error=error.problem, line=error.line, key=error.key)
            continue
        found = found or bool(of_file)
        names = {layer.name for layer in of_file}
        yield from (_checked(layer, names, machine) for layer in of_file)
    if not found:
        raise CommandFailed(f"{path}: no ConfigMap with default.yaml, group.NAME.yaml or node.NAME.yaml is in it", 2)


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each file with its text: of a directory those that end with .yaml, .yml or .json, in order."""
    inside = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json")) if path.is_dir() else [path]
    for file in inside:
        try:
            yield str(file), YamlField.read_text(str(file), _MAX_BYTES)
        except DocumentError as error:
            raise CommandFailed(str(error), 2) from None


def _layers_of(file: str, text: str) -> Iterator[_Layer]:
    """Yield the configurations of each ConfigMap in a file, or the file as one, by its name. Raises ConfigError."""
    trees = config_trees(text, file)
    objects = tuple(config_objects(trees))
    maps = [each for each in objects if _is_ours(each)]
    for each in maps:
        yield from (_Layer(file, name, (each,)) for name in layers((each,)))
    name = Path(file).name.removesuffix(".yaml")
    if not maps and objects and not word_at(objects[0], "kind") and _is_layer(name):
        yield _Layer(file, name, trees)


def _is_ours(tree: Tree) -> bool:
    """Return whether this is a ConfigMap, or an object of nri-plugins, with a configuration for some nodes."""
    return any(map(_is_layer, layers((tree,))))


def _is_layer(name: str) -> bool:
    return name in (_EVERY_NODE, _DEFAULT) or name.startswith(("node.", "group."))


def _checked(layer: _Layer, beside: set[str], machine: str) -> LayerReport:
    """Return the report of one configuration; ``beside`` are those of the file."""
    node = layer.name.removeprefix("node.") if layer.name.startswith("node.") else ""
    group = layer.name.removeprefix("group.") if layer.name.startswith("group.") else ""
    report = LayerReport(file=layer.file, layer=layer.name)
    try:
        if not _is_layer(layer.name):
            near = similar(layer.name, [*beside - {layer.name}, _EVERY_NODE, _DEFAULT, "node.", "group."])
            known = "expected node.NAME.yaml, group.NAME.yaml, default.yaml or cri-proxy.yaml"
            raise ConfigError(layer.file, 0, layer.name, f"{known}{f'; {question(near)}' if near else ''}")
        _require_name(layer, node or group)
        loaded = load_trees(layer.trees, layer.file, node, group)
        settings_for(loaded.config, config_path=Path(layer.file))
    except ConfigError as error:
        return replace(report, valid=False, error=error.problem, line=error.line, key=error.key)
    report = replace(report, warnings=(*loaded.warnings, *_never_used(layer.name, beside)))
    return resolve(report, loaded.config, Path("/"), machine) if machine else report


def _require_name(layer: _Layer, name: str) -> None:
    try:
        optional_name(name)
    except ValueError as error:
        raise ConfigError(layer.file, 0, layer.name, str(error)) from None


def _never_used(name: str, beside: set[str]) -> tuple[str, ...]:
    if name != _EVERY_NODE and _EVERY_NODE in beside:
        return ("never used: cri-proxy.yaml beside it counts on every node",)
    return ()


def render_layers(reports: Sequence[LayerReport]) -> str:
    """Return a line for each configuration, its warnings below it, and one for all."""
    lines = []
    for report in reports:
        name = report.layer or "the file"
        if report.valid:
            cpus = f": available {report.available}, reserved {report.reserved or 'none'}" if report.available else ""
            lines.append(f"{report.file}: {name}: valid{cpus}")
        else:
            lines.append(f"{name}: not valid: {ConfigError(report.file, report.line, report.key, report.error)}")
        lines += [f"  warning: {warning}" for warning in report.warnings]
    if not any(report.layer in (_DEFAULT, _EVERY_NODE) for report in reports):
        lines.append("without default.yaml a node that no other is for has no configuration")
    wrong = sum(not report.valid for report in reports)
    return "\n".join([*lines, f"{plural(len(reports), 'configuration')}: {wrong or 'none'} not valid"])
