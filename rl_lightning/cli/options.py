"""Options of `rl fit` and its kin that belong to the command itself, not to the config."""

OWN_VALUES = ("config", "import", "seeds", "jobs", "render", "group", "checkpoint", "from", "only")
OWN_SWITCHES = ("dry_run", "print_config", "reset_lr")
