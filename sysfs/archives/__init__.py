"""Archives of machines: write one (capture) and read one."""
