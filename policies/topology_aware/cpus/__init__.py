"""Offer, pick and keep the CPUs of a pool, and describe how they were picked."""
