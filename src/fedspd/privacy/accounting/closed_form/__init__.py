"""Compositions with a formula of their own: Gaussian releases, pure ones, spherical noise in many dimensions."""
