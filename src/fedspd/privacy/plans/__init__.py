"""A plan fixes noise, sampling, neighbor relation and cost together: proved, or as the paper has it."""
