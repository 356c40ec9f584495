"""Tests that meet NVML in C: its structures' layout, and a double of the library."""
