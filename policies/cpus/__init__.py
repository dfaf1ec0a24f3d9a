"""CPUs of containers: which ones a pool gives, whole cores, priorities, and what thread siblings mean."""
