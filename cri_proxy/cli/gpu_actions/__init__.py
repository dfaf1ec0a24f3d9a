"""``cri-proxy gpu``: links between GPUs, which go together, a node's score, what it publishes; a module each."""

EXAMPLE = """\
cri-proxy gpu topology configs/links/server.txt
cri-proxy gpu allocate configs/links/kep-690.txt --size 2 --available 0,1,4-7
cri-proxy gpu score configs/links/server.txt --request 4
cri-proxy gpu publish configs/links/server.txt
cri-proxy gpu allocate --help"""
