"""Expositions as OpenMetrics with timestamps, as if Prometheus had scraped them: what promtool takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

from collector.model import Snapshot
from exporters.prometheus import Renderer, TextFormat

_END = b"# EOF\n"


class Target:
    """A target of Prometheus."""

    def __init__(self, job: str, instance: str, labels: Mapping[str, str], *, cluster: str) -> None:
        """Begin unscraped.

        Args:
            job: Its job.
            instance: Its address.
            labels: What discovery says of it, which its own labels prevail over (`honor_labels`).
            cluster: External label `cluster`; empty for none.
        """
        target = {"job": job, "instance": instance, **({"cluster": cluster} if cluster else {})}
        self._common = _pairs(target)
        self._up = f"up{{{_pairs({**target, **labels})}}}".encode()
        self._opening = f"{{{self._common},".encode()
        self._renderer = Renderer()

    def scrape(self, snapshot: Snapshot | None, time_ns: int, file: BinaryIO) -> None:
        """Write what a scrape brings.

        Args:
            snapshot: What the target has; None if it does not answer.
            time_ns: When it is scraped, a whole millisecond of Unix time.
            file: Where to.
        """
        stamp = b" %d.%03d\n" % (time_ns // 10**9, time_ns // 10**6 % 1000)
        file.write(self._up + (b" 0" if snapshot is None else b" 1") + stamp)
        if snapshot is None:
            return
        for line in self._renderer.render(snapshot, TextFormat.OPENMETRICS).split(b"\n"):
            # Each series of rackwatt has at least its rack.
            if line and not line.startswith(b"#"):
                file.write(line.replace(b"{", self._opening, 1) + stamp)


def end(file: BinaryIO) -> None:
    """End an exposition."""
    file.write(_END)


def series(name: str, labels: Mapping[str, str], time_seconds: float, value: float) -> bytes:
    """Write one sample."""
    return f"{name}{{{_pairs(labels)}}} {value!r} {time_seconds:.3f}\n".encode()


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
