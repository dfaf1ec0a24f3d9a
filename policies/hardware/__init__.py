"""The hardware as policies see it: domains, the pool tree, CPU priorities, thread siblings, reserved CPUs."""
