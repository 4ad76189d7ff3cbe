"""A model measured on private records: what is counted, what noise it carries, and what the counts say."""
