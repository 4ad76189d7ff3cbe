"""What a table holds: a draft of its schema, and what is odd about it, for its owner alone."""
