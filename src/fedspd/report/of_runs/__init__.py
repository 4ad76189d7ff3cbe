"""What is shown of runs: pages of one or several, the terminal's text, measurements, an audit."""
