"""What flows over NVLink, against what could: by rack, by GPU, and how evenly over a GPU's links."""

from __future__ import annotations

from collector.profiles import Profile
from dashboards import links, queries, units
from dashboards.boards import platforms
from dashboards.boards.nvlink_links import ROW_LINKS
from dashboards.boards.recordings import GPU_LEGEND, RACK_LEGEND, Recordings, describe, unit
from dashboards.boards.rows import Column, columns_table
from dashboards.panels import (
    ByQuery,
    CellKind,
    FieldOptions,
    Shades,
    Step,
    Table,
    Thresholds,
    Timeseries,
    limit_line,
    palette,
)
from dashboards.panels.targets import Target
from dashboards.queries import CLUSTER, Regexp, Scope

DIRECTIONS = (("transmitted", "sent"), ("received", "received"))
_ANY = Regexp(".*")
_GPU = ("rack", "node", "gpu")
_BY_GPU = f"by ({CLUSTER}, {', '.join(_GPU)})"

_MOST = 24
"""GPUs that are drawn (chosen): more lines cannot be told apart."""
_LEAST_EVEN = 20
"""Rows of the table (chosen)."""
_IDLE_PART = 0.01
"""Part of what a link can carry below which its GPU's links are not compared (chosen)."""
_UNEVEN = 0.8
"""Slowest over busiest link below which it is coloured (chosen)."""


def gpu_peak(profile: Profile) -> float:
    """Return what a GPU can send, or receive, over all its links, in bytes a second."""
    return float(profile.nvlink.links_per_gpu * profile.nvlink.nominal_bytes_per_second)


def rack_peak(profile: Profile) -> float | None:
    """Return what all GPUs of a rack can send and receive together, in bytes a second.

    129.6 TB/s of an NVL72, which NVIDIA rounds to 130: 72 GPUs of 1.8 TB/s. None where the rack is no NVLink
    domain.
    """
    if profile.rack is None:
        return None
    return gpu_peak(profile) * profile.gpus_per_node * profile.rack.compute_trays * len(DIRECTIONS)


GPU_PEAKS = {profile.name: gpu_peak(profile) for profile in platforms.each_profile()}
RACK_PEAKS = {
    profile.name: peak for profile in platforms.each_profile() if (peak := rack_peak(profile)) is not None
}


def rack_throughput(recordings: Recordings) -> str:
    """Add up what the GPUs of a rack send and receive."""
    return " + ".join(
        recordings.by(f"rack:nvlink_{direction}_bytes:rate5m", "rack") for direction, _ in DIRECTIONS
    )


def rack_limit(scope: Scope) -> str:
    """Give each rack that is one NVLink domain what it can carry."""
    return platforms.of_racks(scope, RACK_PEAKS, node=_ANY)


def of_racks(scope: Scope, recordings: Recordings) -> Timeseries:
    """Draw the throughput of racks against their limit."""
    names = [f"rack:nvlink_{direction}_bytes:rate5m" for direction, _ in DIRECTIONS]
    return Timeseries(
        key="rack-throughput",
        title="NVLink throughput of each rack, against its limit",
        description=describe(
            *names,
            note="Sent and received of all GPUs that answer, payload only. The limit is that of an NVL72: 72 "
            "GPUs with 18 links of 50 GB/s in each direction, 130 TB/s as NVIDIA says (NVL72 AI Factory "
            "Enterprise Reference Architecture). Racks of HGX nodes have none: each node is a domain.",
        ),
        width=24,
        height=8,
        targets=(
            Target(expr=rack_throughput(recordings), legend=RACK_LEGEND),
            Target(expr=f"max({rack_limit(scope)})", legend="limit of an NVL72", ref_id="LIMIT"),
        ),
        fields=FieldOptions(
            unit=unit(names[0]), minimum=0, colouring=Shades(palette.NVLINK), links=(links.to_rack(),)
        ),
        overrides=(limit_line(ByQuery("LIMIT")),),
    )


def _peaks(scope: Scope) -> tuple[Target, ...]:
    return tuple(
        Target(
            expr=platforms.where_present(scope, names, peak),
            legend=f"peak: {peak / 1e9:.0f} GB/s",
            ref_id=f"PEAK{number}",
        )
        for number, (peak, names) in enumerate(platforms.grouped(GPU_PEAKS).items(), 1)
    )


def of_gpus(scope: Scope, recordings: Recordings) -> tuple[Timeseries, ...]:
    """Draw what each GPU sends, and what it receives."""
    peaks = _peaks(scope)
    panels = []
    for direction, word in DIRECTIONS:
        name = f"rack_node_gpu:nvlink_{direction}_bytes:rate5m"
        newest = f"max {_BY_GPU} ({recordings.selector(name)} @ end())"
        panels.append(
            Timeseries(
                key=f"gpu-{direction}",
                title=f"NVLink throughput of each GPU, {word}",
                description=describe(
                    name,
                    note=f"The {_MOST} GPUs with most at the end of the time range: choose nodes to see all "
                    "of theirs. The peak is that of all links of a GPU in one direction, by its platform.",
                ),
                width=12,
                height=9,
                targets=(
                    Target(
                        expr=f"{recordings.by(name, *_GPU)} and topk({_MOST}, {newest})", legend=GPU_LEGEND
                    ),
                    *peaks,
                ),
                fields=FieldOptions(
                    unit=unit(name), minimum=0, colouring=Shades(palette.NVLINK), links=(links.to_gpu(),)
                ),
                overrides=tuple(limit_line(ByQuery(target.ref_id)) for target in peaks),
            )
        )
    return tuple(panels)


def spread(recordings: Recordings) -> tuple[Timeseries, ...]:
    """Draw the GPUs of each rack that send, or receive, most and least."""
    return tuple(
        Timeseries(
            key=f"spread-{direction}",
            title=f"Busiest and least busy GPU of each rack, {word}",
            description=describe(
                name := f"rack_node_gpu:nvlink_{direction}_bytes:rate5m",
                note="Far apart: one GPU has other work, or waits for its links.",
            ),
            width=12,
            height=7,
            targets=tuple(
                Target(
                    expr=f"{function} by ({CLUSTER}, rack) ({recordings.selector(name)})",
                    legend=f"{{{{rack}}}} {which}",
                )
                for function, which in (("max", "busiest"), ("min", "least busy"))
            ),
            fields=FieldOptions(
                unit=unit(name), minimum=0, colouring=Shades(palette.NVLINK), links=(links.to_rack(),)
            ),
        )
        for direction, word in DIRECTIONS
    )


def uneven(scope: Scope) -> Table:
    """List the GPUs whose links carry unequal shares."""
    name = "nvlink_transmitted_bytes_total"
    floor = _IDLE_PART * min(profile.nvlink.nominal_bytes_per_second for profile in platforms.each_profile())
    slowest, busiest = (f"{function} {_BY_GPU} ({scope.rate(name)})" for function in ("min", "max"))
    ratio = f"bottomk({_LEAST_EVEN}, {slowest} / ({busiest} > {floor:.12g}))"
    return columns_table(
        key="imbalance",
        title="Imbalance: GPUs whose links send unequal shares",
        description=queries.describe(
            name,
            note=f"The {_LEAST_EVEN} GPUs of which the slowest link is furthest from the busiest, where that "
            f"carries {floor / 1e6:.0f} MB/s or more. Traffic is spread over all links: 100 % is even. A "
            "link that is down tells nothing, and is not among them.",
        ),
        width=24,
        height=9,
        labels=(("rack", "Rack"), ("node", "Node"), ("gpu", "GPU")),
        columns=(
            Column(
                "Slowest of busiest",
                ratio,
                unit=units.RATIO,
                cell=CellKind.COLOURED_TEXT,
                thresholds=Thresholds(base=palette.DEGRADED, steps=(Step(_UNEVEN, palette.NEUTRAL),)),
            ),
            Column("Slowest link", f"{slowest} and {ratio}", unit=queries.rate_unit(name)),
            Column("Busiest link", f"{busiest} and {ratio}", unit=queries.rate_unit(name)),
        ),
        links=ROW_LINKS,
    )
