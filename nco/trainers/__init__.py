"""Training from recipes: the Lightning command line, what a run writes, and how it is resumed."""
