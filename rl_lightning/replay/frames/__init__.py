"""Frames and their episodes, stored once."""
