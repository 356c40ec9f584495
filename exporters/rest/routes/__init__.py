"""The paths of CONTRACTS §5, one module a subject."""
