"""What the lessons draw, from the values of real runs."""
