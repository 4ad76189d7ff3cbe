"""What a federation is set up with: folders, certificates, keys, archives for the sites."""
