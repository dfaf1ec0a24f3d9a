"""``cri-proxy costs``: make listings of costs; a module for each action."""

EXAMPLE = """\
cri-proxy costs derive > costs.yaml
cri-proxy select costs.yaml --request cpu=1,memory=1
cri-proxy costs derive --help"""
