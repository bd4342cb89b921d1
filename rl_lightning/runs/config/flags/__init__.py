"""Flags of a config: what they mean where they say less than a file would."""
