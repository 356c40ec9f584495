"""Whole processes as users run them: nothing is imported from what is tested."""
