"""A program that writes and sends a spool until it is killed: says on standard output what it did.

Arguments: the folder, the first number, and the bytes of padding. `synced N`: record N is on the disk.
`acknowledged N`: so are all up to N sent.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from exporters.influxdb.spool import MINIMUM_BYTES, Spool
from tests.spools import numbers_of, payload


def main() -> None:
    """Run."""
    folder, first, padding = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    spool = Spool.open(folder, maximum_bytes=16 * MINIMUM_BYTES, maximum_age_seconds=86_400)
    print("open", flush=True)
    for number in range(first, first + 100_000):
        spool.append(payload(number, padding), points=2, time_ns=time.time_ns())
        spool.sync()
        assert spool.status().durable
        print("synced", number, flush=True)
        if number % 7 == 0 and (batch := spool.read(3 * (padding + 100))) is not None:
            print("sending", numbers_of(batch.payload)[-1], flush=True)
            spool.acknowledge(batch.position)
            print("acknowledged", numbers_of(batch.payload)[-1], flush=True)


if __name__ == "__main__":
    main()
