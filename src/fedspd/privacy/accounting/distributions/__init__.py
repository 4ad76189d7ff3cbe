"""Distributions of privacy loss: the pair that dominates an event, on a grid, composed, rounded to the safe side."""
