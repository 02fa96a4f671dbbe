"""Faults that users meet, and the message that each must give."""
