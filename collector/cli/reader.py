"""`rackwatt reader`: the reader's process. The agent starts it; it is no command for people.

It lives as long as the agent, so it imports the NVML source and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.cli.simulation import Simulation

SIMULATE = "--simulate"


def command(simulation: Simulation | None = None) -> list[str]:
    """Say how to start a reader's process.

    It is started by the path of this package, so that it is the same rackwatt as the agent, and with `-P`,
    so that nothing in the folder where the agent was started can take a module's place.

    Args:
        simulation: The node that stands in for hardware, or None.

    Returns:
        Program and arguments.
    """
    from pathlib import Path

    import msgspec

    words = [sys.executable, "-P", str(Path(__file__).with_name("__main__.py").absolute()), "reader"]
    if simulation is not None:
        words += [SIMULATE, msgspec.json.encode(simulation).decode()]
    return words


def run(words: Sequence[str]) -> int:
    """Run a reader over standard input and output until the agent closes the pipe.

    Args:
        words: Nothing, or `--simulate` and a simulation as JSON.

    Returns:
        Exit status.
    """
    from collector.sources.nvml import child

    if not words:
        return child.main()
    if len(words) != 2 or words[0] != SIMULATE:
        sys.stderr.write("rackwatt: `reader` is started by the agent; `rackwatt --help` lists the commands\n")
        return 2

    import msgspec

    from collector.cli.simulation import Simulation, open_simulated
    from collector.errors import ConfigurationError

    try:
        simulation = msgspec.json.decode(words[1], type=Simulation)
        return child.main(lambda: open_simulated(simulation))
    except (msgspec.DecodeError, ConfigurationError) as error:
        sys.stderr.write(f"rackwatt: reader: {error}\n")
        return 2
