"""Data sets recorded from policies that play."""
