"""Serving engines: their metrics endpoints, scraped and brought under one name each."""
