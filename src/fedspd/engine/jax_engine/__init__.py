"""The JAX engine: the same algorithms, compiled; needs the extra `fedspd[jax]`.

Nothing here is imported before a run asks for it: see `session`.
"""
