"""Rows of a data set: episodes, actions, rewards, and what can be wrong with them."""
