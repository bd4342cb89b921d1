"""Behaviours that data are recorded with: random, scripted, published."""
