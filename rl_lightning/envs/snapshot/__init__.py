"""Exact snapshots of envs, as plain values."""
