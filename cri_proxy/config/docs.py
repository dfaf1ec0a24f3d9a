"""Write the reference page of all options from the model: ``python -m cri_proxy.config.docs``."""

import sys

from cri_proxy.config.model import known_options
from cri_proxy.config.option import Known, values_text
from cri_proxy.config.values import show_value

_HEAD = """\
# Options

Written from `cri_proxy/config/model.py` by `python -m cri_proxy.config.docs`; do not edit.

The configuration is YAML: a file or a mounted ConfigMap directory, given to `cri-proxy run --config`. Keys are
matched without regard to case, an unknown key is an error, and an option on the command line wins over the file.
`cri-proxy check-config` checks a file. Complete examples stand in `configs/`. The file of cri-resource-manager and the
`TopologyAwarePolicy` object of nri-plugins are understood as they are; what means nothing here is reported.

A key with a dot is a key inside a group: `log.level` is written `log: {level: info}`. The last column says whether
the option can change while the daemon runs: [changing the configuration](../change-configuration.md) says how.

| key | values | default | unit | command line | meaning | reloadable |
|---|---|---|---|---|---|---|
"""


def options_page() -> str:
    """Return the page, as Markdown."""
    return _HEAD + "".join(f"| {' | '.join(_cells(known))} |\n" for known in known_options())


def _cells(known: Known) -> tuple[str, ...]:
    option = known.option
    flag = f"`{option.flag}`" if option.flag else ""
    former = "".join(f"; formerly `{key}`, which is still read" for key in option.was)
    meaning = option.text + (f" ({option.remedy})" if option.remedy else "") + former
    values = values_text(known).replace("|", "\\|")
    reloadable = "yes" if option.is_reloadable else "no"
    return (f"`{known.key}`", values, f"`{show_value(known.default)}`", option.unit, flag, meaning, reloadable)


if __name__ == "__main__":
    sys.stdout.write(options_page())
