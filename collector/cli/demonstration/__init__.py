"""What `rackwatt demo` shows: two simulated racks, their agents, a rack service, and a story."""
