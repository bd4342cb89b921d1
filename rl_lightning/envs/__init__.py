"""Environments: one contract over every suite. `make.py` alone builds them."""
