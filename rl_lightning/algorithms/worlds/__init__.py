"""World models, and what is learned inside them."""
