"""What goes wrong for users, and what they must then be told."""
