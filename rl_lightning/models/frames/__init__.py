"""Worlds that predict the next frame."""
