"""A finished agent: loaded, asked for actions, scored."""
