"""From declared columns to features: encoding, scaling, and the recipe that scores new records."""
