"""Learned dynamics, their quality, and penalties for leaving the data."""
