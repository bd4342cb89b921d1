"""What `rl` does, from Python."""
