"""Random configurations for as long as there is time, each held against other ways to the same numbers."""
