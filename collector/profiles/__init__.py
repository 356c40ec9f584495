"""Platform profiles: the figures of each platform that rackwatt knows, one TOML file each, with sources."""

from __future__ import annotations

import difflib
import functools
import tomllib
from importlib import resources

from collector.errors import ConfigurationError
from collector.profiles.schema import (
    BurnFigures,
    Capabilities,
    FabricProfile,
    GpuProfile,
    ModuleProfile,
    NvLinkProfile,
    PlatformInfoSupport,
    Profile,
    RackProfile,
    ServingProfile,
)
from collector.profiles.toml_reader import parse_profile

__all__ = [
    "BurnFigures",
    "Capabilities",
    "FabricProfile",
    "GpuProfile",
    "ModuleProfile",
    "NvLinkProfile",
    "PlatformInfoSupport",
    "Profile",
    "RackProfile",
    "ServingProfile",
    "for_product_name",
    "load",
    "names",
    "parse_profile",
]

# A platform is added here and by one file <name>.toml beside this module.
_NAMES = ("gb300-nvl72", "gb200-nvl72", "hgx-b200", "hgx-h200", "hgx-h100")


def names() -> tuple[str, ...]:
    """Return the names of all platforms, newest first."""
    return _NAMES


@functools.cache
def load(name: str) -> Profile:
    """Read one profile.

    Args:
        name: Name of the platform, one of `names()`.

    Returns:
        The profile; the same object for the same name.

    Raises:
        ConfigurationError: There is no such platform; the message names the nearest one.
    """
    if name not in _NAMES:
        near = difflib.get_close_matches(name, _NAMES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigurationError(f"unknown platform {name!r}: {hint}known: {', '.join(_NAMES)}")
    file_name = f"{name}.toml"
    text = resources.files(__name__).joinpath(file_name).read_text(encoding="utf-8")
    profile = parse_profile(tomllib.loads(text), file_name)
    if profile.name != name:
        raise ConfigurationError(f"{file_name}: name {profile.name!r} must be {name!r}")
    return profile


def for_product_name(product_name: str) -> Profile | None:
    """Find the platform of a GPU by the exact string that NVML reports.

    Never by a part of it: "NVIDIA B200" is also the beginning of boards that are not an HGX B200.

    Args:
        product_name: What `nvmlDeviceGetName` returned.

    Returns:
        The profile, or None when no profile has this product.
    """
    return next((each for each in map(load, _NAMES) if each.gpu.product_name == product_name), None)
