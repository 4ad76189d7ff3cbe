"""The methods, one file each: the algorithm box, and all that the rest of the house must know of it."""
