"""What the pools still have: each pool for status, and the largest container that fits."""
