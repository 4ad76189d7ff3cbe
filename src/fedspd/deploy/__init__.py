"""Deployment on Flower."""
