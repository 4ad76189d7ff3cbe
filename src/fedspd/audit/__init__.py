"""Attacks on what the package claims."""
