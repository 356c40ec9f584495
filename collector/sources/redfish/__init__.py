"""Redfish: power shelves and the power state of hosts (DMTF DSP0266 and its schemas)."""
