"""Verbs that train: fit, resume, reproduce, sweep; and those that look on: watch, tensorboard."""
