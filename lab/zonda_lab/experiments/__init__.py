"""What to measure: experiment files, their keys and metrics, and the randomised blocks they become."""
