"""What the policies know of the hardware: domains, the pool tree, CPU priorities, thread siblings, reserved CPUs."""
