"""``cri-proxy hints``: what providers offer for a request, and what policies make of it; a module for each action."""

EXAMPLE = """\
cri-proxy hints generate configs/hints/request.yaml
cri-proxy hints merge configs/hints/merge.yaml --policy restricted
cri-proxy hints compare --format csv
cri-proxy hints merge --help"""
