"""The service's page for people: every rack with its verdict in one sentence, and where machines look.

Plain HTML without script. A verdict is said by a shape and a word; colour only repeats it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from string import Template

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from collector.health.rack_types import RackStatus
from collector.health.states import Verdict
from exporters.rest.context import Own
from exporters.rest.problems import printable
from exporters.rest.views.common import moment
from exporters.rest.views.racks import sentence

router = APIRouter(include_in_schema=False)

_VERDICTS: Mapping[Verdict, str] = {
    Verdict.AVAILABLE: "● AVAILABLE",
    Verdict.UNAVAILABLE: '<span class="signal">✕ UNAVAILABLE</span>',
    Verdict.MAINTENANCE: "◇ MAINTENANCE",
    Verdict.UNKNOWN: '<span class="signal">◌ UNKNOWN</span>',
}

_OWN_STYLE = "td.words { white-space: normal; }\n"
"""What the table of racks needs beyond the agent's style."""

_ENDPOINTS = (
    ("/v1/racks", "every rack and its verdict"),
    ("/v1/racks/{rack}/health", "what can be used, what not, why, what to do"),
    ("/v1/racks/{rack}/availability?window=30d", "for how much of a month it was available"),
    ("/v1/racks/{rack}/efficiency?window=5m", "tokens for each joule, costs, interactivity"),
    ("/v1/racks/{rack}/nodes", "every node with its reasons"),
    ("/v1/domains", "NVLink domains and cliques"),
    ("/v1/events", "what happened, newest first"),
    ("/v1/maintenance", "declared maintenance"),
    ("/metrics", "Prometheus, OpenMetrics"),
    ("/sd/prometheus", "targets for Prometheus"),
    ("/openapi.json", "all of this for machines"),
)


class _Page:
    """The page's template, and the headers that allow its style and nothing else."""

    def __init__(self) -> None:
        # The style is the agent's page's: one look, kept in one place.
        agents = resources.files("exporters").joinpath("landing.html").read_text("utf-8")
        self._style = agents.partition("<style>")[2].partition("</style>")[0] + _OWN_STYLE
        self._template = Template(resources.files("exporters.rest").joinpath("index.html").read_text("utf-8"))
        digest = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        self.headers: Mapping[str, str] = {
            "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        }

    def render(self, racks: Sequence[RackStatus], *, not_ready: str, observed: str) -> str:
        """Write the page.

        Args:
            racks: The racks.
            not_ready: Why verdicts do not count yet, in words; empty if they do.
            observed: When the racks were evaluated; empty if never.
        """
        example = racks[0].rack if racks else "r01"
        return self._template.substitute(
            style=self._style,
            title="rackwatt racks",
            heading=f"{len(racks)} rack{'' if len(racks) == 1 else 's'}",
            state=_state(racks, not_ready),
            racks=_table(racks),
            endpoints="\n".join(_endpoint(path.format(rack=example), text) for path, text in _ENDPOINTS),
            footer=f"Evaluated at {observed}. Reload for newer." if observed else "Not evaluated yet.",
        )


@cache
def _page() -> _Page:
    return _Page()


@router.get("/")
async def show_index(own: Own) -> Response:
    """Show the page."""
    page, service = _page(), own.service
    html = page.render(
        service.racks(),
        not_ready=service.why_not_ready(),
        observed=moment(service.observed_ns) or "",
    )
    return HTMLResponse(printable(html), headers=dict(page.headers))


def _state(racks: Sequence[RackStatus], not_ready: str) -> str:
    if not_ready:
        return f'<span class="signal">▲ Verdicts do not count yet:</span> {escape(not_ready)}'
    available = sum(rack.verdict is Verdict.AVAILABLE for rack in racks)
    if available == len(racks):
        return "● Every rack is available."
    return f'<span class="signal">▲ {available} of {len(racks)} racks are available.</span>'


def _table(racks: Sequence[RackStatus]) -> str:
    if not racks:
        return "<h2>Racks</h2>\n<p>None is known yet.</p>"
    rows = "\n".join(map(_row, racks))
    return (
        '<h2>Racks</h2>\n<div class="wide">\n<table>\n<thead>\n<tr><th scope="col">Rack</th>'
        '<th scope="col">Verdict</th><th scope="col">In words</th></tr>\n'
        f"</thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def _row(rack: RackStatus) -> str:
    name, words = escape(rack.rack), escape(sentence(rack, rack.min_block, rack.verdict))
    return (
        f'<tr><td><a href="/v1/racks/{name}/health">{name}</a></td><td>{_VERDICTS[rack.verdict]}</td>'
        f'<td class="words">{words}</td></tr>'
    )


def _endpoint(path: str, text: str) -> str:
    link = escape(path)
    return f'<tr><td><a href="{link}">{link}</a></td><td>{text}</td></tr>'
