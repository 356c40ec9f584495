"""From a file to a rack service's settings."""

from __future__ import annotations

from collector import profiles
from collector.config.document import parse_document
from collector.config.load import read_file
from collector.config.rack_schema import RackConfiguration
from collector.config.rack_sections import rack_service_section
from collector.config.sections import placed, read_section
from collector.errors import ConfigurationError

DEFAULT_FILE = "/etc/rackwatt/rack.yaml"


def load_rack_service(path: str) -> RackConfiguration:
    """Load a rack service's settings.

    Raises:
        ConfigurationError: The file cannot be read or a setting cannot be used; one line a mistake.
    """
    return parse_rack_service(read_file(path), path)


def parse_rack_service(data: bytes, name: str) -> RackConfiguration:
    """Parse a rack service's configuration file.

    Args:
        data: Content of the file.
        name: Name of the file, for messages.

    Raises:
        ConfigurationError: Something is wrong; one line a mistake, each with its place.
    """
    section = rack_service_section(profiles.names(), _compute_trays)
    settings, mistakes = read_section(parse_document(data, name), section)
    if not isinstance(settings, RackConfiguration):
        raise ConfigurationError("\n".join(placed(mistakes, name)))
    return settings


def _compute_trays(platform: str) -> int | None:
    rack = profiles.load(platform).rack
    return rack.compute_trays if rack is not None else None
