"""The capacity that is left: each pool for status, and the largest container that fits."""
