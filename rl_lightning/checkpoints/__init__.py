"""Checkpoints that resume exactly: what is in them, and which are kept."""
