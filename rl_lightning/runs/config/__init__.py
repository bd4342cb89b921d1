"""From names, files and overrides to data, model and Trainer."""
