"""Where a spool lies, and what its configuration says of it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.cli.influxdb import AGENT_SPOOL, RACK_SPOOL, spool_path
from collector.config import (
    AgentConfiguration,
    RackConfiguration,
    choose_state_directory,
    load_agent,
    load_rack_service,
)
from collector.config.schema import InfluxdbSetting

_LOCK_NAME = "lock"


@dataclass(frozen=True, slots=True)
class SpoolPlace:
    """A spool.

    Attributes:
        path: Its folder.
        setting: What is configured of it and its server; None if nothing is.
    """

    path: Path
    setting: InfluxdbSetting | None

    def writer_runs(self) -> bool:
        """Tell whether a process of this machine writes it, without getting in its way."""
        try:
            inode = (self.path / _LOCK_NAME).stat().st_ino
            locks = Path("/proc/locks").read_text("ascii")
        except OSError:
            return False
        # proc(5): "1: FLOCK ADVISORY WRITE pid major:minor:inode start end"
        return any(
            words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode)
            for line in locks.splitlines()
            if len(words := line.split()) >= 6
        )

    def writer_pid(self) -> str:
        """Return the process id that the writer left; empty if it left none."""
        with contextlib.suppress(OSError):
            text = (self.path / _LOCK_NAME).read_bytes()[:20].decode("ascii", errors="replace").strip()
            return text if text.isdigit() else ""
        return ""


def find_spool(
    config: str | None, state_dir: str | None, *, of_rack: bool, environ: Mapping[str, str]
) -> SpoolPlace:
    """Find the spool that an agent, or a rack service, of this machine would use.

    Args:
        config: The configuration file; None for what the agent would find.
        state_dir: Folder of state, instead of what is configured; None to go by the configuration.
        of_rack: Whether it is a rack service's.
        environ: The environment.

    Raises:
        ConfigurationError: The configuration cannot be used.
    """
    configuration = _load(config, of_rack=of_rack, environ=environ)
    setting = configuration.influxdb if configuration is not None else None
    name = RACK_SPOOL if of_rack else AGENT_SPOOL
    if state_dir is not None:
        return SpoolPlace(Path(state_dir, name), setting)
    if setting is not None and setting.spool.path is not None:
        return SpoolPlace(Path(setting.spool.path), setting)
    state = choose_state_directory(configuration or AgentConfiguration(), environ)
    path = Path(state.path, name) if setting is None else spool_path(setting, Path(state.path), name)
    return SpoolPlace(path, setting)


def _load(
    config: str | None, *, of_rack: bool, environ: Mapping[str, str]
) -> AgentConfiguration | RackConfiguration | None:
    from collector import profiles
    from collector.config.rack_load import DEFAULT_FILE

    if not of_rack:
        return load_agent(config, environ, profiles.names()).configuration
    if config is None and not Path(DEFAULT_FILE).exists():
        return None
    return load_rack_service(config or DEFAULT_FILE)
