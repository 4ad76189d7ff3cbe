"""The server of a federation: it sees releases only, and can stop at any moment and go on."""
