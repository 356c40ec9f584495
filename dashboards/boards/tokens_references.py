"""Measured tokens against published ones, on the basis of those: all tokens, by provisioned power."""

from __future__ import annotations

import re

from collector import profiles
from collector.profiles import references
from collector.profiles.references import PowerBasis, Reference, ReferenceKind, TokenKind
from dashboards import queries, units
from dashboards.boards import platforms
from dashboards.boards.recordings import Recordings, describe
from dashboards.boards.tokens_queries import TokenQueries, tokens_name
from dashboards.panels import ByQuery, FieldOptions, Shades, Timeseries, palette, reference_line
from dashboards.panels.targets import Target
from dashboards.queries import CLUSTER, Regexp

_PER_GPU = "rack:llm_total_tokens_per_gpu:ratio_rate5m"


def comparable() -> tuple[Reference, ...]:
    """Return the published figures that the panel's basis fits: all tokens, provisioned power, a platform."""
    return tuple(
        each
        for each in references.load()
        if each.kind is ReferenceKind.THROUGHPUT
        and each.token_kind is TokenKind.TOTAL
        and each.power_basis is PowerBasis.PROVISIONED
        and each.platform
    )


def model_pattern(model: str) -> str:
    """Match a model as the rack service does: apart from capitals and the organization before the slash."""
    return f"(?i:(.*/)?{re.escape(model).replace(chr(92) + '-', '-')}/*)"


def provisioned_watts() -> dict[str, float]:
    """Return the power that is published as built for a GPU, by platform."""
    found = {name: references.provisioned_watts_per_gpu(name, references.load()) for name in profiles.names()}
    return {name: watts for name, watts in found.items() if watts is not None}


def _line(own: TokenQueries, published: Reference) -> str:
    """Write a constant for as long as a chosen rack of the platform serves the model."""
    racks = platforms.of_racks(own.scope, {published.platform: published.tokens_per_second_per_megawatt or 0})
    served = Recordings(own.scope).selector(
        tokens_name(TokenKind.TOTAL, level="rack_model"), model=Regexp(model_pattern(published.model))
    )
    return f"max({racks} and on ({CLUSTER}, rack) {served})"


def _said(published: Reference) -> str:
    speed = published.tokens_per_second_per_user
    figure = (published.tokens_per_second_per_megawatt or 0) / 1e6
    at = "" if speed is None else f", at {speed:.1f} tokens/s a user"
    return (
        f"- {published.title}: {figure:.2f} million{at}. {published.source}. "
        f"Holds for: {published.conditions}."
    )


def against_published(own: TokenQueries) -> Timeseries:
    """Draw measured and published tokens a second for each provisioned megawatt."""
    lines = {f"R{number}": each for number, each in enumerate(comparable(), 1)}
    watts = platforms.of_racks(own.scope, provisioned_watts())
    measured = f"1e6 * {own.recordings.by(_PER_GPU, 'rack')} / {watts}"
    note = "\n".join(
        (
            "By the power that is published as built for each GPU, with CPU, network and facility: it is not "
            "measured, and no power domain. Dotted lines show while a chosen rack of that platform serves "
            "that model; they hold for their own lengths and interactivity, and the rack service's "
            "`/v1/racks/{rack}/efficiency` says in what the measured ones differ:",
            "",
            *(_said(each) for each in lines.values()),
        )
    )
    return Timeseries(
        key="published",
        title="Total tokens/s for each provisioned MW, measured and published",
        description=f"{describe(_PER_GPU, note=note)} Platform: `{queries.row('node_info').exposed_name}`.",
        width=12,
        height=9,
        targets=(
            Target(expr=measured, legend="{{rack}} measured"),
            *(Target(expr=_line(own, each), legend=each.title, ref_id=ref) for ref, each in lines.items()),
        ),
        fields=FieldOptions(
            unit=units.TOKENS_PER_SECOND_PER_MEGAWATT, minimum=0, colouring=Shades(palette.TOKENS)
        ),
        overrides=tuple(reference_line(ByQuery(ref)) for ref in lines),
    )
