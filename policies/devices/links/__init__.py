"""Links between GPUs: the matrix that ``nvidia-smi topo -m`` prints, what links are worth, which GPUs go together."""

from policies.lazy_import import door

__getattr__ = door(__name__)
