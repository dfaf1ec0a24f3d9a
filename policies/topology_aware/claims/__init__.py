"""Containers whose CPUs another allocator has chosen (docs/placement.md, Choosing CPUs)."""
