"""The commands, one file each; what they share stands on the floor above."""
