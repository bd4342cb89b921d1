"""Learned things with a meaning; their state is passed in and out or kept in buffers."""
