"""From a built config to a finished run folder."""
