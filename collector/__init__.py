"""Reads GPU nodes, and judges what it read."""
