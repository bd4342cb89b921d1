"""One file per suite of envs, imported when an id calls for it."""
