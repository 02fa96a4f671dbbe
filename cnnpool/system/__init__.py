"""The process and its machine: signals, processes of one training, hardware."""
