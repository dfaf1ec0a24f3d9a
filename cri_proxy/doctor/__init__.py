"""``cri-proxy doctor``: facts about a node, rules that judge them, and what has to be changed."""
