"""Flows: noise carried to rows by a velocity."""
