"""Which of several checkpoints is the best, from recorded rows alone."""
