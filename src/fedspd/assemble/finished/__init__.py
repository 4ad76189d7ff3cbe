"""What is asked of a finished run: how good its model is, how sure its coefficients are, what it leaks."""
