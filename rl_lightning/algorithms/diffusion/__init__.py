"""Policies by diffusion."""
