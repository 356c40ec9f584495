"""The key `price`: what GPUs and electricity cost."""

from __future__ import annotations

import msgspec

from collector.config import values
from collector.config.rack_schema import PriceSetting
from collector.config.reading import Key, Section

# Beyond these it is a typing error: a GPU of 2026 is rented for some dollars an hour, electricity costs cents
# to a dollar a kWh, and the worst halls draw a few times what their racks do.
_MOST_USD_PER_GPU_HOUR = 1000.0
_MOST_USD_PER_KWH = 100.0
_HIGHEST_PUE = 5.0

PRICE = Section(
    {
        "gpu_hour_usd": Key(
            lambda text: values.number(text, 0.0, _MOST_USD_PER_GPU_HOUR, "dollars"), "dollars such as 3.30"
        ),
        "kwh_usd": Key(
            lambda text: values.number(text, 0.0, _MOST_USD_PER_KWH, "dollars"), "dollars such as 0.08"
        ),
        "pue": Key(lambda text: values.number(text, 1.0, _HIGHEST_PUE, "(a ratio)"), "a ratio such as 1.2"),
        "gpu_hour_includes_energy": Key(values.boolean, "true or false"),
    },
    lambda read: msgspec.convert(read, PriceSetting),
)
