"""``cri-proxy gpu``: links between GPUs, which go together, a node's score, what it publishes; a module each."""

from typing import Final

HELP = "links between GPUs: show a matrix, choose GPUs, score the node, publish it for the scheduler"
EXAMPLE = """\
cri-proxy gpu topology configs/links/server.txt
cri-proxy gpu allocate configs/links/kep-690.txt --size 2 --available 0,1,4-7
cri-proxy gpu score configs/links/server.txt --request 4
cri-proxy gpu publish configs/links/server.txt
cri-proxy gpu allocate --help"""

ACTIONS: Final = ("topology", "allocate", "score", "publish")
