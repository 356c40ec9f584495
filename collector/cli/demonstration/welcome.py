"""What the demo prints: the verdicts, what to open, what to try, and what will happen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from collector import profiles
from collector.cli.demonstration.story import Scene, Stage
from collector.health.rack_types import RackStatus
from exporters.rest.views.racks import sentence


@dataclass(frozen=True, slots=True)
class Places:
    """Where what is.

    Attributes:
        rack_service: Host and port of the rack service.
        first_agent: Host and port of the first agent.
        token_file: File with the token that writes need.
    """

    rack_service: str
    first_agent: str
    token_file: str


def welcome(
    stages: tuple[Stage, ...],
    story: Iterable[Scene],
    *,
    statuses: Iterable[RackStatus],
    places: Places,
    speed: float,
) -> str:
    """Say what there is to see.

    Args:
        stages: The racks.
        story: What happens to them.
        statuses: The newest status of each.
        places: Where what is.
        speed: How many times as fast the story is told.
    """
    url, agent = f"http://{places.rack_service}", f"http://{places.first_agent}"
    verdicts = [sentence(status, status.min_block, status.verdict) for status in statuses]
    return "\n".join(
        (
            *(_describe(stage) for stage in stages),
            "",
            *(f"  {verdict}" for verdict in verdicts),
            "",
            "Open:",
            "",
            *_table(
                (f"{url}/", "both racks"),
                (f"{url}/v1/racks", "their verdicts"),
                (f"{url}/v1/racks/r01/health", "what can be used, what not, why, what to do"),
                (
                    f"{url}/v1/racks/r01/efficiency?window=5m",
                    "tokens for each joule, once five minutes were watched",
                ),
                (f"{url}/metrics", "the series of the racks"),
                (f"{agent}/", f"an agent: {stages[0].nodes[0]} of {stages[0].rack}"),
                (f"{url}/sd/prometheus", "all agents, as Prometheus reads them"),
            ),
            "",
            "Try (`| python3 -m json.tool` behind a line makes JSON easier to read):",
            "",
            *(f"  {line}" for line in commands(places)),
            "",
            f"What happens, in seconds after the start{_hurry(speed)}:",
            "",
            *_story(story, speed),
            "",
            "Ctrl-C ends it.",
        )
    )


def commands(places: Places) -> tuple[str, ...]:
    """Return command lines that work as they are, from the beginning on.

    Args:
        places: Where what is.
    """
    url, agent = f"http://{places.rack_service}", f"http://{places.first_agent}"
    return (
        f"curl -s {url}/v1/racks",
        f"curl -s {url}/v1/racks/r01/health",
        f"curl -s '{url}/v1/racks/r01/health?min_block=18'",
        f"curl -s {url}/v1/nodes/n07",
        f"curl -s '{url}/v1/events?rack=r01'",
        f"curl -s '{url}/v1/racks/r01/availability?window=1h'",
        f"curl -s '{url}/v1/racks/r01/efficiency?window=1m'",
        f"curl -s {url}/metrics | grep '^rackwatt_rack_verdict'",
        f"curl -s {agent}/metrics | grep '^rackwatt_gpu_power_watts'",
        f"curl -s {agent}/metrics | grep '^rackwatt_llm_tokens_total'",
        f'curl -s -H "Authorization: Bearer $(cat {places.token_file})" -H "Content-Type: application/json"'
        """ -d '{"rack": "r01", "nodes": ["n05"], "duration": "2m", "reason": "trying it"}'"""
        f" {url}/v1/maintenance",
    )


def _describe(stage: Stage) -> str:
    profile = profiles.load(stage.platform)
    gpus = len(stage.nodes) * profile.gpus_per_node
    links = gpus * profile.nvlink.links_per_gpu
    nodes = "compute trays" if profile.rack is not None else "nodes"
    counts = f"{len(stage.nodes)} {nodes}, {gpus} GPUs, {links:,} NVLinks"
    return f"{stage.rack}: a simulated {profile.title}, {counts}"


def _table(*rows: tuple[str, str]) -> list[str]:
    width = max(len(first) for first, _ in rows)
    return [f"  {first:{width}}  {second}" for first, second in rows]


def _story(story: Iterable[Scene], speed: float) -> list[str]:
    lines = []
    for scene in story:
        lines.append(f"  {scene.at_seconds / speed:5.0f}  {scene.rack} {scene.node}: {scene.what}.")
        lines.append(f"         {scene.shows}.")
    return lines


def _hurry(speed: float) -> str:
    """Say how the minutes in the words of the story are to be read."""
    return "" if speed == 1 else f" (its minutes have {60 / speed:.0f} s each)"
