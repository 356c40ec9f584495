"""The agent's page for people: what this node is, how its GPUs do, and where machines look.

Plain HTML without script. Status is said by a shape and a word; colour only repeats it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from importlib import resources
from string import Template

from collector.model import Snapshot, Value
from exporters.snapshot import ages_now

_MISSING = "\u2013"
"""En dash: nothing was read."""
_GAP = "\u202f"
"""Narrow no-break space between a number and its unit."""

_ADDRESS = re.compile(r"[A-Za-z0-9._\-:\[\]]{1,255}")
"""What a Host header may be to be shown in a command."""

_FACTS = (
    ("platform", "Platform"),
    ("driver_version", "Driver"),
    ("cuda_version", "CUDA"),
    ("agent_version", "Agent"),
    ("hostname", "Host"),
    ("kernel", "Kernel"),
)
"""Texts of `node_info` that the page shows, and their captions."""

_ENDPOINTS = (
    ("/metrics", "Prometheus, OpenMetrics", "curl --compressed http://{}/metrics"),
    ("/v1/snapshot", "newest values and events", "curl http://{}/v1/snapshot"),
    ("/v1/health", "what is wrong, and what to do", "curl http://{}/v1/health"),
    ("/-/ready", "whether the data are fresh", "curl http://{}/-/ready"),
    ("/-/healthy", "whether the agent lives", "curl http://{}/-/healthy"),
)

_COLUMNS = (
    ("gpu_utilization_ratio", "Utilization", 100.0, ".0f", "%"),
    ("gpu_power_watts", "Power", 1.0, ".1f", "W"),
    ("gpu_temperature_celsius", "Temperature", 1.0, ".0f", "°C"),
)
"""Metric, caption, factor for display, format and unit of the numeric columns."""

_LINKS_UP, _LINKS_EXPECTED = "gpu_nvlinks_up", "gpu_nvlinks_expected"
_SHOWN = {"gpu_up", "gpu_info", _LINKS_UP, _LINKS_EXPECTED, *(column[0] for column in _COLUMNS)}
_COUNTED = {"node_gpus_present", "node_gpus_expected"}


@dataclass(slots=True)
class _Gpu:
    """One row of the table: what the Snapshot has of a GPU."""

    index: str
    product: str = ""
    values: dict[str, Value | None] = field(default_factory=dict)


class LandingPage:
    """The page, read from its template once."""

    def __init__(self) -> None:
        text = resources.files("exporters").joinpath("landing.html").read_text("utf-8")
        self._template = Template(text)
        style = text.partition("<style>")[2].partition("</style>")[0]
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        self.headers: Mapping[str, str] = {
            # The style is allowed by its hash; nothing else may load, run, frame or send (CSP level 2).
            "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
        }

    def render(
        self, snapshot: Snapshot | None, *, not_ready: str, elapsed_seconds: float, address: str
    ) -> bytes:
        """Write the page.

        Args:
            snapshot: The newest Snapshot, or None.
            not_ready: Why the agent is not ready, in words; empty if it is.
            elapsed_seconds: Time since the Snapshot was published.
            address: Host and port as the reader's browser calls them.
        """
        name = address if _ADDRESS.fullmatch(address) else "localhost"
        page = self._template.substitute(
            title=escape(f"{snapshot.node} · {snapshot.rack} · rackwatt" if snapshot else "rackwatt agent"),
            heading=_heading(snapshot),
            state=_state(snapshot, not_ready, elapsed_seconds),
            facts=_facts(snapshot.identity) if snapshot else "",
            gpus=_gpu_section(snapshot) if snapshot else "",
            endpoints="\n".join(_endpoint(path, text, curl.format(name)) for path, text, curl in _ENDPOINTS),
            footer=_footer(snapshot),
        )
        return page.encode("utf-8", errors="replace")


def _heading(snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "Starting"
    simulated = snapshot.identity.get("simulated") == "true"
    badge = ' <span class="badge">SIMULATED</span>' if simulated else ""
    return f"{escape(snapshot.node)} <small>in rack {escape(snapshot.rack)}</small>{badge}"


def _state(snapshot: Snapshot | None, not_ready: str, elapsed_seconds: float) -> str:
    if not_ready:
        words = escape(not_ready[:1].upper() + not_ready[1:])
        sentence = f'<span class="signal">▲ Not ready</span> {words}'
    else:
        sentence = "● NVML is up and its data are fresh."
    ages = ages_now(snapshot, elapsed_seconds) if snapshot else {}
    if not ages:
        return sentence
    parts = ", ".join(f"{escape(cadence)} {_duration(age)}" for cadence, age in ages.items())
    return f'{sentence} <span class="ages">Age of values: {parts}.</span>'


def _facts(identity: Mapping[str, str]) -> str:
    rows = (
        f"<div><dt>{caption}</dt><dd>{_or_dash(identity.get(key, ''))}</dd></div>" for key, caption in _FACTS
    )
    return "<dl>\n" + "\n".join(rows) + "\n</dl>"


def _gpu_section(snapshot: Snapshot) -> str:
    gpus, counts = _collect(snapshot)
    if not gpus:
        return "<h2>GPUs</h2>\n<p>None is known yet.</p>"
    present, expected = (counts.get(name) for name in ("node_gpus_present", "node_gpus_expected"))
    summary = f"{_plain(present)} present, {_plain(expected)} expected"
    heads = "".join(f'<th class="number" scope="col">{column[1]}</th>' for column in _COLUMNS)
    return "\n".join(
        (
            f"<h2>GPUs <small>{summary}</small></h2>",
            '<div class="wide">\n<table>\n<thead>',
            '<tr><th class="number" scope="col">GPU</th>'
            '<th scope="col">State</th><th scope="col">Product</th>'
            f'{heads}<th class="number" scope="col">NVLinks</th></tr>',
            "</thead>\n<tbody>",
            *(_gpu_row(gpu) for gpu in gpus),
            "</tbody>\n</table>\n</div>",
        )
    )


def _collect(snapshot: Snapshot) -> tuple[list[_Gpu], dict[str, Value | None]]:
    """Gather the rows by identity, in the order of the index for display, and the node's counts."""
    gpus: dict[str, _Gpu] = {}
    counts: dict[str, Value | None] = {}
    for entry, value in zip(snapshot.table.series, snapshot.values, strict=True):
        name = entry.metric.name
        if name in _COUNTED:
            counts[name] = value
        elif name in _SHOWN:
            index, uuid, *own = entry.labels
            gpu = gpus.setdefault(uuid, _Gpu(index))
            if name == "gpu_info":
                gpu.product = own[0] if value is not None else ""
            else:
                gpu.values[name] = value
    return sorted(gpus.values(), key=lambda gpu: (len(gpu.index), gpu.index)), counts


def _gpu_row(gpu: _Gpu) -> str:
    numbers = (
        _quantity(gpu.values.get(name), factor, form, unit) for name, _, factor, form, unit in _COLUMNS
    )
    return (
        f'<tr><td class="number">{escape(gpu.index)}</td><td>{_gpu_state(gpu.values.get("gpu_up"))}</td>'
        f"<td>{_or_dash(gpu.product)}</td>"
        + "".join(f'<td class="number">{number}</td>' for number in numbers)
        + f'<td class="number">{_links(gpu.values)}</td></tr>'
    )


def _quantity(value: Value | None, factor: float, form: str, unit: str) -> str:
    if value is None:
        return _MISSING
    return f'{value * factor:{form}}{_GAP}<span class="unit">{unit}</span>'


def _links(values: Mapping[str, Value | None]) -> str:
    up, expected = values.get(_LINKS_UP), values.get(_LINKS_EXPECTED)
    if up is None and expected is None:
        return _MISSING
    text = f"{_plain(up)}/{_plain(expected)}"
    short = up is not None and expected is not None and up < expected
    return f'<span class="signal">▲ {text}</span>' if short else text


def _gpu_state(up: Value | None) -> str:
    if up is None:
        return "◌ unknown"
    return "● up" if up else '<span class="signal">✕ lost</span>'


def _endpoint(path: str, text: str, curl: str) -> str:
    return f'<tr><td><a href="{path}">{path}</a></td><td>{text}</td><td><code>{escape(curl)}</code></td></tr>'


def _footer(snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "No Snapshot yet."
    moment = datetime.fromtimestamp(snapshot.time_ns // 1_000_000_000, UTC)
    return f"Snapshot {snapshot.sequence}, taken {moment:%Y-%m-%d %H:%M:%S} UTC. Reload for a newer one."


def _plain(value: Value | None) -> str:
    return _MISSING if value is None else f"{value:.0f}"


def _or_dash(text: str) -> str:
    return escape(text) if text else _MISSING


def _duration(seconds: float | None) -> str:
    """Write an age with the unit that fits it."""
    if seconds is None:
        return "never read"
    scales: Iterable[tuple[float, float, str, str]] = (
        (10, 1, ".1f", "s"),
        (120, 1, ".0f", "s"),
        (7200, 60, ".0f", "min"),
    )
    for below, unit_seconds, form, unit in scales:
        if seconds < below:
            return f"{seconds / unit_seconds:{form}}{_GAP}{unit}"
    return f"{seconds / 3600:.0f}{_GAP}h"
