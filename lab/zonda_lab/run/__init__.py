"""A run: all starts of all experiments in order, with the limits of the rig and the remaining time."""
