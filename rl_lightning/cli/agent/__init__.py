"""Verbs for a finished agent: validate, test, predict, play."""
