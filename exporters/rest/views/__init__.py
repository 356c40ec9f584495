"""From what the rack service knows to the bodies of the API: pure functions, one module a subject."""
