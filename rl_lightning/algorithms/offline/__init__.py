"""Update rules that learn from recorded data."""
