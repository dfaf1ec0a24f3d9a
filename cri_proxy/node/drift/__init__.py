"""Find cpusets that somebody else has rewritten."""
