"""Policy heads and value functions."""
