"""A finished agent, evaluated: played, tested, filmed, and what is reported of it."""
