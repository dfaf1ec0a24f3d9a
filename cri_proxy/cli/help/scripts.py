"""The completion scripts of bash, zsh and fish, made of the parsers.

A script starts no process, but where the name of a container may stand: it asks ``cri-proxy completion containers``.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from cri_proxy.cli.help.commands import COMMANDS, ROWS, CommandRow
from cri_proxy.cli.help.options import CommandOption, Takes, options_of

ASK_CONTAINERS: Final = "cri-proxy completion containers 2>/dev/null"
_PROGRAM_OPTIONS: Final = ("--help", "--version")
_WITH_ACTIONS: Final = tuple(name for name in COMMANDS if ROWS[name].actions)
_SENTENCE: Final = re.compile(r"(?<=[.;])\s.*|\s\(default[^)]*\)$", re.DOTALL)
_LONGEST: Final = 80


# Names of containers are compared, and not given to compgen -W, which runs what stands in its words.
_BASH: Final = r"""# Completion of cri-proxy for bash, made by: cri-proxy completion bash
_cri_proxy_words() {{ COMPREPLY=($(compgen -W "$*" -- "$current")); }}
_cri_proxy_files() {{ compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")); }}
_cri_proxy_containers() {{
    local name
    while IFS= read -r name; do
        [[ $name != "$current"* ]] || COMPREPLY+=("$(printf %q "$name")")
    done < <(cri-proxy completion containers 2>/dev/null)
}}
_cri_proxy() {{
    local IFS=$' \t\n' current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=
    local command=${{COMP_WORDS[1]}}
    COMPREPLY=()
    # --option=value is three words here
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    if ((COMP_CWORD == 1)); then
        _cri_proxy_words {commands} {program}
        return
    fi
    if ((COMP_CWORD == 2)); then
        case $command in
{actions}
    help) _cri_proxy_words {commands} ;;
        esac
        [[ ${{#COMPREPLY[@]}} -eq 0 ]] || return
    fi
    case $command in {with_actions}) command+=" ${{COMP_WORDS[2]}}" ;; esac
    case "$command $before" in
{after}
    esac
    if [[ $current == -* ]]; then
        case $command in
{words}
        esac
        _cri_proxy_words $words
        return
    fi
    case $command in
{arguments}
    esac
}}
complete -F _cri_proxy cri-proxy"""


def script(shell: str) -> str:
    """Return the script of this shell."""
    return SCRIPTS[shell]()


def _short(text: str) -> str:
    """Return the beginning of a text that fits beside a completion."""
    first = _SENTENCE.sub("", " ".join(text.split())).rstrip(".;")
    return first if len(first) <= _LONGEST else f"{first[: _LONGEST - 3].rsplit(' ', 1)[0]}..."


def _leaves() -> Iterator[tuple[str, tuple[CommandOption, ...]]]:
    """Yield each command without actions, and each action, with its options."""
    for name, row in ROWS.items():
        if not row.actions:
            yield name, options_of(name)


def _named(options: tuple[CommandOption, ...]) -> list[CommandOption]:
    return [option for option in options if option.names]


def _argument(options: tuple[CommandOption, ...]) -> CommandOption | None:
    return next((option for option in options if not option.names), None)


def bash() -> str:
    """Return the script for bash, to be sourced or put where bash-completion looks."""
    after, words, arguments = [], [], []
    for name, options in _leaves():
        for option in _named(options):
            if (values := _bash_values(option)) is not None:
                patterns = "|".join(shlex.quote(f"{name} {each}") for each in option.names)
                after.append(f"    {patterns}) {values}; return ;;")
        offered = " ".join(each for option in _named(options) for each in option.names)
        words.append(f"        {shlex.quote(name)}) words={shlex.quote(offered)} ;;")
        if (argument := _argument(options)) and (values := _bash_values(argument)):
            arguments.append(f"    {shlex.quote(name)}) {values} ;;")
    actions = [f"    {name}) _cri_proxy_words {' '.join(ROWS[name].actions)} ;;" for name in _WITH_ACTIONS]
    return _BASH.format(
        commands=" ".join(COMMANDS),
        program=" ".join(("help", *_PROGRAM_OPTIONS)),
        with_actions="|".join(_WITH_ACTIONS),
        actions="\n".join(actions),
        after="\n".join(after),
        words="\n".join(words),
        arguments="\n".join(arguments),
    )


def _bash_values(option: CommandOption) -> str | None:
    """Return the command that completes a value; ':' where there is none to complete, None where there is no value."""
    match option.takes:
        case Takes.NOTHING:
            return None
        case Takes.WORDS:
            return f"_cri_proxy_words {' '.join(option.words)}"
        case Takes.FILES:
            return "_cri_proxy_files"
        case Takes.CONTAINERS:
            return "_cri_proxy_containers"
    return ":"


def zsh() -> str:
    """Return the script for zsh, a function to be loaded from a directory of its ``fpath``."""
    cases = []
    for name, options in _leaves():
        specs = [spec for option in _named(options) for spec in _zsh_option(option)]
        if argument := _argument(options):
            specs.append(shlex.quote(f"*:{_zsh_value(argument)}"))
        cases += [f"    ({shlex.quote(name)})", "        _arguments -s \\"]
        cases += [f"            {spec} \\" for spec in specs[:-1]] + [f"            {specs[-1]}", "        ;;"]
    actions = []
    for name in _WITH_ACTIONS:
        actions += [f"    ({name})", f"        commands=({_zsh_described(ROWS[name].actions)})", "        ;;"]
    return "\n".join(
        [
            "#compdef cri-proxy",
            "# Completion of cri-proxy for zsh, made by: cri-proxy completion zsh",
            "_cri_proxy_containers() {",
            "    local -a names",
            f'    names=(${{(f)"$({ASK_CONTAINERS})"}})',
            "    compadd -a names",
            "}",
            "_cri_proxy() {",
            "    local -a commands",
            "    local command=$words[2]",
            "    if (( CURRENT == 2 )); then",
            f"        commands=({_zsh_described(ROWS)}",
            "            help:'print the help of a command')",
            "        _describe command commands",
            "        return",
            "    fi",
            "    shift words; (( CURRENT-- ))",
            "    case $command in",
            *actions,
            f"    (help) commands=({' '.join(COMMANDS)}) ;;",
            "    esac",
            "    if (( $#commands )); then",
            "        if (( CURRENT == 2 )); then",
            "            _describe action commands",
            "            return",
            "        fi",
            '        command+=" $words[2]"',
            "        shift words; (( CURRENT-- ))",
            "    fi",
            "    case $command in",
            *cases,
            "    esac",
            "}",
            '_cri_proxy "$@"',
        ]
    )


def _zsh_described(rows: Mapping[str, CommandRow]) -> str:
    lines = [f"{name}:{shlex.quote(_short(row.text))}" for name, row in rows.items() if " " not in name]
    return "\n            ".join(lines)


def _zsh_option(option: CommandOption) -> Iterator[str]:
    """Yield the specifications of an option for _arguments, one for each of its names."""
    said = re.sub(r"([\[\]:\\])", r"\\\1", _short(option.text))
    others = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
    value = "" if option.takes is Takes.NOTHING else f":{_zsh_value(option)}"
    for name in option.names:
        joined = "" if option.takes is Takes.NOTHING else "=" if name.startswith("--") else "+"
        yield shlex.quote(f"{others}{name}{joined}[{said}]{value}")


def _zsh_value(option: CommandOption) -> str:
    title = re.sub(r"([:\\])", r"\\\1", option.value.split()[0]) if option.value else "value"
    match option.takes:
        case Takes.WORDS:
            return f"{title}:({' '.join(option.words)})"
        case Takes.FILES:
            return f"{title}:_files"
        case Takes.CONTAINERS:
            return f"{title}:_cri_proxy_containers"
    return f"{title}: "


def fish() -> str:
    """Return the script for fish, to be put where it looks for completions."""
    lines = [
        "# Completion of cri-proxy for fish, made by: cri-proxy completion fish",
        "complete -c cri-proxy -f",
        *(
            f"complete -c cri-proxy -n __fish_use_subcommand -a {name} -d {_fish_text(ROWS[name].text)}"
            for name in COMMANDS
        ),
        f"complete -c cri-proxy -n __fish_use_subcommand -a help -d {_fish_text('print the help of a command')}",
        f"complete -c cri-proxy -n '__fish_seen_subcommand_from help' -a {_fish_quote(' '.join(COMMANDS))}",
    ]
    for name in _WITH_ACTIONS:
        actions = ROWS[name].actions
        first = f"__fish_seen_subcommand_from {name}; and not __fish_seen_subcommand_from {' '.join(actions)}"
        lines += [
            f"complete -c cri-proxy -n {_fish_quote(first)} -a {action} -d {_fish_text(row.text)}"
            for action, row in actions.items()
        ]
    for name, options in _leaves():
        where = _fish_quote("; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split()))
        lines += [f"complete -c cri-proxy -n {where} {_fish_option(option)}" for option in options]
    return "\n".join(lines)


def _fish_option(option: CommandOption) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    match option.takes:
        case Takes.NOTHING:
            value = []
        case Takes.WORDS:
            value = [f"-xa {_fish_quote(' '.join(option.words))}"]
        case Takes.FILES:
            value = ["-rF"] if names else ["-F"]
        case Takes.CONTAINERS:
            value = [f"-xa {_fish_quote(f'({ASK_CONTAINERS})')}"]
        case _:
            value = ["-x"]
    said = [f"-d {_fish_text(option.text)}"] if names else []
    return " ".join([*names, *value, *said])


def _fish_text(text: str) -> str:
    return _fish_quote(_short(text))


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SCRIPTS: Final[Mapping[str, Callable[[], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
