"""Agents that other libraries trained, as runs of ours."""
