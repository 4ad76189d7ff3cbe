"""A site at work beside its records: what it allows, charges, computes, remembers and sends."""
