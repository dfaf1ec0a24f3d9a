"""Write the reference page of all annotations from the table: ``python -m cri_proxy.cri.annotations.docs``."""

import sys

from cri_proxy.cri.annotations.exact_resources import KEYS
from cri_proxy.cri.annotations.forms import Annotation
from cri_proxy.cri.annotations.read import DOMAINS
from cri_proxy.cri.annotations.table import OF_PEERS, TABLE

_HEAD = """\
# Annotations

Written from `cri_proxy/cri/annotations/table.py` by `python -m cri_proxy.cri.annotations.docs`; do not edit.

Annotations are set on the pod. Each key is read in the domains {domains}, in that order
(option `annotationDomains`), and in these forms, from the narrowest scope to the widest:

| form | for |
|---|---|
| `KEY.DOMAIN/container.NAME: VALUE` | one container, init and ephemeral containers too |
| `DOMAIN/KEY` or `KEY.DOMAIN`, the value a JSON or YAML map by container name | each container that it names |
| `KEY.DOMAIN/pod`, `KEY.DOMAIN` or `DOMAIN/KEY: VALUE` | every container of the pod |

The narrowest scope wins, within a scope the first domain. `affinity` and `anti-affinity` are always a map by container
name, as `DOMAIN/KEY`. Values are JSON or YAML of at most 64 KiB, nested at most 16 deep, without aliases and tags.

A value that is not understood, or that another annotation of the same container leaves without effect, is ignored: it
is logged and counted, and `explain` shows it. `strictAnnotations: true` refuses the container instead, and names the
annotation, its value and the reason.

| key | effect | values |
|---|---|---|
"""

_TAIL = """
Known and without effect here, hence no mistake: {peers}.

`{exact}`, which the admission webhooks of nri-plugins and cri-resource-manager write, hold exact requests and limits. A
figure counts where it agrees with what the kubelet sent.
"""


def annotations_page() -> str:
    """Return the page, as Markdown."""
    head = _HEAD.format(domains=_listed(DOMAINS))
    tail = _TAIL.format(peers=_listed(sorted(OF_PEERS)), exact="` and `".join(KEYS))
    return head + "".join(f"| {' | '.join(_cells(row))} |\n" for row in TABLE) + tail


def _listed(words: tuple[str, ...] | list[str]) -> str:
    quoted = [f"`{word}`" for word in words]
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _cells(row: Annotation[object]) -> tuple[str, ...]:
    examples = "<br>".join(f"`{example}`".replace("\n", " ⏎ ") for example in row.examples)
    old = f"; old name: `{'`, `'.join(row.old_keys)}`" if row.old_keys else ""
    return (f"`{row.key}`{old}", row.text, examples)


if __name__ == "__main__":
    sys.stdout.write(annotations_page())
