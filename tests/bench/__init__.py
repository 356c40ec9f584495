"""The bench: what the agent costs, and beside it nvitop-exporter, over one NVML double (see ``__main__``)."""
