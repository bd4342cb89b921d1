"""A finished agent, evaluated: played, tested, filmed, and what is told of it."""
