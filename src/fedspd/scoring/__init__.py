"""A trained model at work: scores and predictions for new records, and its coefficients in their own units."""
