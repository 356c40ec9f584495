"""Histories for the dashboards: simulated racks, through the shipped code, on a turned clock."""
