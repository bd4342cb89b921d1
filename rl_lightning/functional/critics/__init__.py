"""What critics learn beside squared errors."""
