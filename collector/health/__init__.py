"""Judging: checks of a node, states of what it holds, the rack's verdict and its availability.

Pure functions and data: nothing here reads a device, a clock or the network; the ledger alone keeps a file.
"""
