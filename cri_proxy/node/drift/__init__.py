"""Find and repair cpusets that other programs have rewritten."""
