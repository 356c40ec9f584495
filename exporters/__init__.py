"""Writes what the collector read: everything that leaves a node."""
