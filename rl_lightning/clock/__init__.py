"""The clocks of a run, what is due on them, and phases."""
