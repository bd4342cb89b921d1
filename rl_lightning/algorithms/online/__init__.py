"""Update rules that learn while they collect."""
