"""What GPUs and energy cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Prices as configured; None where one is not.

    Attributes:
        gpu_hour_usd: A GPU for an hour, US dollars.
        kwh_usd: A kilowatt-hour of electricity, US dollars.
        pue: Power of the whole facility to that of its racks (ISO/IEC 30134-2).
        gpu_hour_includes_energy: Whether the price of the GPU-hour pays for the energy, too, as that of a
            rented GPU does; if not, the energy is added.
    """

    gpu_hour_usd: float | None = None
    kwh_usd: float | None = None
    pue: float | None = None
    gpu_hour_includes_energy: bool = True
