"""``cri-proxy hints``: what providers offer for a request, and what policies make of it; a module for each action."""

from typing import Final

HELP = "topology hints: merge them, generate them for a request, or compare the policies"
EXAMPLE = """\
cri-proxy hints generate configs/hints/request.yaml
cri-proxy hints merge configs/hints/merge.yaml --policy restricted
cri-proxy hints compare --format csv
cri-proxy hints merge --help"""

ACTIONS: Final = ("merge", "generate", "compare")
