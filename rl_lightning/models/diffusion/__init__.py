"""Diffusion models of actions, and policies made of them."""
