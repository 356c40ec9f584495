"""Builds the NVML double: ``libnvidia-ml.so.1`` from the C files beside this one and NVIDIA's own header."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
SONAME: Final = "libnvidia-ml.so.1"  # what pynvml loads on Linux, without a path and without an override
HEADER_DISTRIBUTION: Final = "nvidia-nvml-dev"  # NVIDIA's wheel with nvml.h; the header is never copied here
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror")


class BuildError(Exception):
    """The double cannot be built: a program or the header is missing, or the compiler refuses."""


def header_directory() -> Path:
    """The folder of NVIDIA's nvml.h, inside the installed wheel.

    Raises:
        BuildError: The wheel is not installed, or it has no nvml.h.
    """
    try:
        files = importlib.metadata.files(HEADER_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(
            f"{HEADER_DISTRIBUTION} is not installed: it brings nvml.h (pip install {HEADER_DISTRIBUTION})"
        ) from None
    for file in files:
        if file.name == "nvml.h":
            header = Path(str(file.locate())).resolve()
            if header.is_file():
                return header.parent
    raise BuildError(f"no nvml.h among the files of {HEADER_DISTRIBUTION}: install it anew")


def compile_c(sources: Sequence[Path], output: Path, *options: str) -> Path:
    """Compile C files against nvml.h into one file.

    Args:
        sources: The C files.
        output: What to write.
        options: Further options of gcc, before the sources.

    Returns:
        The output.

    Raises:
        BuildError: gcc is missing, or it refuses the sources; its words are in the message.
    """
    gcc = shutil.which("gcc")
    if gcc is None:
        raise BuildError("gcc is not installed: the NVML double is written in C (Debian package gcc)")
    command = [gcc, "-std=gnu11", "-O2", *WARNINGS, *options, f"-I{header_directory()}", "-o", str(output)]
    command += [str(source) for source in sources]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"gcc refused {', '.join(source.name for source in sources)}:\n{result.stderr}")
    return output


def build(directory: Path) -> Path:
    """Build the double into a folder, which then can stand in LD_LIBRARY_PATH.

    Args:
        directory: An existing folder.

    Returns:
        The library, named by its SONAME.

    Raises:
        BuildError: gcc or nvml.h is missing, or the C code does not compile.
    """
    options = ("-shared", "-fPIC", f"-Wl,-soname,{SONAME}", "-Wl,--no-undefined")
    return compile_c(sorted(HERE.glob("*.c")), directory / SONAME, *options)
