"""What a site computes on its records: rounds, moments, counts, its parts of sums; nothing here is sent."""
