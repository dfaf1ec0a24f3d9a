"""Links between GPUs: the matrix that ``nvidia-smi topo -m`` prints, what links are worth, which GPUs go together."""
