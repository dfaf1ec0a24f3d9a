"""Offer and take the CPUs of a pool."""
