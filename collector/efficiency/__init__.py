"""Tokens for each joule: energy and tokens of a rack added up, and what follows from them. No I/O here."""
