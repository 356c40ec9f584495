"""A program that publishes numbered Snapshots to InfluxDB until it is killed, and says which.

Arguments: the server's address, the folder, the first number, Snapshots a second. `published N` is said with
each Snapshot; SIGTERM closes the exporter, and then `closed` is said.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tests.exporter_snapshots import EMPTY, UUIDS, series, snapshot_of
from tests.influx_exporters import exporter_for

GPUS = 8


async def main(url: str, folder: Path, first: int, per_second: int) -> None:
    """Run."""
    exporter = exporter_for(url, folder)
    await exporter.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print("ready", flush=True)
    number = first
    while not stop.is_set():
        power = (
            (series("gpu_power_watts", str(gpu), f"{UUIDS[0]}-{gpu}"), number + 0.5) for gpu in range(GPUS)
        )
        exporter.publish(
            replace(snapshot_of(*power), sequence=number, time_ns=EMPTY.time_ns + number * 1_000_000_000)
        )
        print("published", number, flush=True)
        number += 1
        try:
            async with asyncio.timeout(1 / per_second):
                await stop.wait()
        except TimeoutError:
            continue
    await exporter.close()
    print("closed", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
