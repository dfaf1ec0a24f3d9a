"""The CRI v1 interface as written by this project, and the stubs generated from it."""
