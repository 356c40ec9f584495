"""The one exception tree of rackwatt.

```
RackwattError
├── ConfigurationError     what the user wrote is wrong           exit status 2
├── InstallationError      the installation itself is broken      exit status 2
└── NvmlUnavailableError   NVML cannot be used now; may heal
```

Every message says what is wrong, where, which value, and what would be right.
"""

from __future__ import annotations


class RackwattError(Exception):
    """Root of every error that rackwatt raises on purpose."""


class ConfigurationError(RackwattError):
    """A configuration key, value, file or command-line argument that cannot be used."""


class InstallationError(RackwattError):
    """The installed packages clash or are incomplete."""


class NvmlUnavailableError(RackwattError):
    """NVML cannot be used at the moment.

    Attributes:
        reason: Short stable word for machines, such as `library_not_found`.
        needs_new_process: True when only a fresh process can load NVML again,
            as after the driver's library was replaced on disk.
    """

    def __init__(self, reason: str, message: str, *, needs_new_process: bool = False) -> None:
        """Keep the machine-readable reason beside the sentence for people."""
        super().__init__(message)
        self.reason = reason
        self.needs_new_process = needs_new_process
