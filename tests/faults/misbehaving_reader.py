"""A reader's process that misbehaves: `python misbehaving_reader.py HOW [ARGUMENT]`.

It speaks the pipe's protocol by hand, so that it shares no mistake with `collector.sources`.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

BETWEEN_SECONDS = 0.02

LAYOUT: dict[str, object] = {
    "type": "layout",
    "generation": 1,
    "blocks": [["fast", [["node_gpus_present", []]]]],
    "gpus": [],
    "driver_version": "580.105.08",
    "cuda_version": "13.0",
    "platform": "gb300-nvl72",
    "gpus_expected": 4,
}


def send(message: dict[str, object]) -> None:
    """Write a frame."""
    body = msgspec.msgpack.encode(message)
    write(struct.pack(">I", len(body)) + body)


def write(data: bytes) -> None:
    """Write everything, or end with the pipe."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        os._exit(0)


def reading(present: int = 4, **more: object) -> dict[str, object]:
    """Make a reading of the one series."""
    message = {"type": "reading", "taken_at": time.monotonic(), "generation": 1, "up": True}
    return message | {"batches": [[0, [present]]]} | more


def down(reason: str) -> dict[str, object]:
    """Make a reading that says why there is none."""
    return {"type": "reading", "taken_at": time.monotonic(), "generation": 0, "up": False, "reason": reason}


def options_arrived() -> None:
    """Wait for the agent's options; without any, end."""
    header = os.read(0, 4)
    if not header:
        sys.exit(2)
    os.read(0, struct.unpack(">I", header)[0])


def stop_ordered() -> bool:
    """Tell whether the agent has closed the pipe."""
    os.set_blocking(0, False)
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


def sleep_for_ever() -> None:
    """Hang, and heed nothing."""
    while True:
        time.sleep(3600)


def answers(_: str) -> None:
    """Do as a reader should."""
    send(LAYOUT)
    while not stop_ordered():
        send(reading())
        time.sleep(BETWEEN_SECONDS)


def hangs_after(count: str) -> None:
    """Bring some readings, then none."""
    send(LAYOUT)
    for _ in range(int(count)):
        send(reading())
        time.sleep(BETWEEN_SECONDS)
    sleep_for_ever()


def hangs_once(marker: str) -> None:
    """Hang after a few readings, the first time that it is started; be well from then on."""
    first = not Path(marker).exists()
    Path(marker).touch()
    if first:
        hangs_after("5")
    answers("")


def begins_late(seconds: str) -> None:
    """Take time for the start, then do as a reader should."""
    time.sleep(float(seconds))
    answers("")


def says_nothing(_: str) -> None:
    """Hang at once."""
    sleep_for_ever()


def says_why_and_exits(status: str) -> None:
    """Tell what is wrong and end."""
    send(down("the NVML library and the loaded kernel driver have different versions"))
    sys.exit(int(status))


def is_killed(number: str) -> None:
    """Die of a signal, as of a crash in the driver's library."""
    send(LAYOUT)
    os.kill(os.getpid(), int(number))


def floods(_: str) -> None:
    """Send without a pause, and never look at the orders."""
    send(LAYOUT)
    body = msgspec.msgpack.encode(reading())
    frames = (struct.pack(">I", len(body)) + body) * 1000
    while True:
        write(frames)


def sends_garbage(text: str) -> None:
    """Send bytes that are no frame, and go on living."""
    send(LAYOUT)
    write(bytes.fromhex(text))
    sleep_for_ever()


def sends_a_strange_layout(_: str) -> None:
    """Be of another version than the agent."""
    send(LAYOUT | {"blocks": [["fast", [["gpu_invented_watts", []]]]]})
    sleep_for_ever()


def sends_half_a_frame(_: str) -> None:
    """Hang in the midst of a frame."""
    send(LAYOUT)
    write(b"\x00\x00\x00\x40half")
    sleep_for_ever()


def closes_its_pipe(_: str) -> None:
    """Close the pipe and live on."""
    send(LAYOUT)
    os.close(1)
    sleep_for_ever()


def leaves_a_child(_: str) -> None:
    """End at once, and leave behind a child that holds the pipe."""
    send(LAYOUT)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(8)"])
    send(reading(present=child.pid))


def ignores_everything(_: str) -> None:
    """Answer, and heed neither the end of the orders nor any signal that can be ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    send(LAYOUT)
    while True:
        send(reading())
        time.sleep(BETWEEN_SECONDS)


HOW: dict[str, Callable[[str], None]] = {
    function.__name__: function
    for function in (
        answers,
        hangs_after,
        hangs_once,
        begins_late,
        says_nothing,
        says_why_and_exits,
        is_killed,
        floods,
        sends_garbage,
        sends_a_strange_layout,
        sends_half_a_frame,
        closes_its_pipe,
        leaves_a_child,
        ignores_everything,
    )
}


def main() -> None:
    """Misbehave as told."""
    how, argument = sys.argv[1], "".join(sys.argv[2:])
    options_arrived()
    HOW[how](argument)


if __name__ == "__main__":
    main()
