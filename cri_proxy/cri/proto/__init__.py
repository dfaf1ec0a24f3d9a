"""The .proto file of the CRI v1 subset that this project uses, and the Python modules generated from it."""
