"""What methods hold: local steps, step sizes, graphs of clients, noise in objectives."""
