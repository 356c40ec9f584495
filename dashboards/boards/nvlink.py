"""NVLink fabric: which links are not up, which go wrong, and what flows over them."""

from __future__ import annotations

from collector.catalog.rack import DOMAIN_STATES
from dashboards import queries, units, variables
from dashboards.boards.nvlink_errors import (
    ERRORS,
    RECOVERIES,
    bit_errors,
    errors,
    last_hour,
    recoveries,
)
from dashboards.boards.nvlink_fabric import (
    DOMAIN_STATE,
    conditions,
    domain_history,
    domains,
    registration,
)
from dashboards.boards.nvlink_links import (
    down_now,
    failed_recoveries,
    links_down,
    node_by_link,
    none_known,
    recovered_badly,
)
from dashboards.boards.nvlink_traffic import (
    of_gpus,
    of_racks,
    rack_limit,
    rack_throughput,
    spread,
    uneven,
)
from dashboards.boards.recordings import Recordings, describe
from dashboards.dashboard import Annotation, Board
from dashboards.identities import BoardId
from dashboards.layout import Section
from dashboards.panels import (
    ByName,
    FieldOptions,
    Fixed,
    Override,
    Stat,
    StatText,
    Step,
    Thresholds,
    instant,
    palette,
)
from dashboards.panels.palette import Colour
from dashboards.queries import Regexp
from dashboards.rules.record_fabric import BER_KINDS

_VARIABLES = variables.down_to(variables.GPU)
_SCOPE = queries.Scope.of(_VARIABLES)
_RECORDED = Recordings(_SCOPE)

_OF_RACKS = "Of the chosen racks, whatever nodes and GPUs are chosen."
_ANY = Regexp(".*")


def _from_one(name: str, colour: Colour) -> Override:
    """Colour a count as soon as there is one."""
    return Override(fields=ByName(name), thresholds=Thresholds(steps=(Step(1, colour),)))


_UP, _EXPECTED = (_RECORDED.total(f"rack:nvlinks_{what}:sum") for what in ("up", "expected"))
_TOLD = f"count({_RECORDED.selector('rack_node_gpu:nvlinks_up:sum', node=_ANY, gpu=_ANY)})"
_GPUS = _RECORDED.total("rack:gpus_expected:max")

_LINKS = Stat(
    key="links",
    title="Links up, and those that GPUs have",
    description=describe("rack:nvlinks_up:sum", "rack:nvlinks_expected:sum", note=_OF_RACKS),
    width=4,
    height=4,
    targets=(
        instant(_UP, legend="up"),
        instant(_EXPECTED, legend="expected"),
        instant(f"{_EXPECTED} - {_UP}", legend="down"),
    ),
    # A rack has more than a thousand: as a number it would be shown as 1.3 K, one down or none.
    fields=FieldOptions(unit=units.NONE),
    overrides=(_from_one("down", palette.DEGRADED),),
    text=StatText.VALUE_AND_NAME,
)

_SILENT = Stat(
    key="silent",
    title="GPUs that tell of their links",
    description=describe(
        "rack_node_gpu:nvlinks_up:sum",
        "rack:gpus_expected:max",
        note=f"{_OF_RACKS} Nobody knows the links of those that are silent: they are in no figure here.",
    ),
    width=4,
    height=4,
    targets=(
        instant(_TOLD, legend="tell"),
        instant(f"{_GPUS} - {_TOLD}", legend="silent"),
    ),
    fields=FieldOptions(unit=units.NUMBER),
    overrides=(_from_one("silent", palette.UNKNOWN),),
    text=StatText.VALUE_AND_NAME,
)

_DOMAINS = Stat(
    key="domains-by-state",
    title="NVLink domains by state",
    description=describe(DOMAIN_STATE, note=_OF_RACKS),
    width=6,
    height=4,
    targets=(instant(_RECORDED.total(DOMAIN_STATE, "state"), legend="{{state}}"),),
    fields=FieldOptions(unit=units.NUMBER),
    overrides=tuple(_from_one(state, palette.STATE_COLOURS[state]) for state in DOMAIN_STATES),
    text=StatText.VALUE_AND_NAME,
)

_WRONG = Stat(
    key="last-hour",
    title="Failed recoveries and errors, last hour",
    description=describe(
        RECOVERIES,
        ERRORS,
        note=f"{_OF_RACKS} Six windows of 10 minutes, added up.",
    ),
    width=4,
    height=4,
    targets=(
        instant(f"sum({last_hour(_RECORDED.selector(RECOVERIES, outcome='failed'))})", legend="failed"),
        instant(f"sum({last_hour(_RECORDED.selector(ERRORS))})", legend="errors"),
    ),
    fields=FieldOptions(unit=units.NUMBER, decimals=0),
    overrides=(_from_one("failed", palette.FAILED), _from_one("errors", palette.DEGRADED)),
    text=StatText.VALUE_AND_NAME,
)

_USED = Stat(
    key="used",
    title="NVLink in use, busiest rack",
    description=describe(
        "rack:nvlink_transmitted_bytes:rate5m",
        "rack:nvlink_received_bytes:rate5m",
        note="Of what the rack's GPUs can send and receive together; racks of HGX nodes are no domain and "
        "not among them.",
    ),
    width=3,
    height=4,
    targets=(instant(f"max(({rack_throughput(_RECORDED)}) / {rack_limit(_SCOPE)})"),),
    fields=FieldOptions(unit=units.RATIO, colouring=Fixed(palette.NVLINK)),
)

_BIT_ERRORS = Stat(
    key="worst-ber",
    title="Worst bit error ratio",
    description=describe(*(f"rack:nvlink_{kind}_ber:max" for kind in BER_KINDS), note=_OF_RACKS),
    width=3,
    height=4,
    targets=tuple(
        instant(f"max({_RECORDED.selector(f'rack:nvlink_{kind}_ber:max')})", legend=kind)
        for kind in BER_KINDS
    ),
    fields=FieldOptions(unit=units.SCIENTIFIC),
    text=StatText.VALUE_AND_NAME,
)

BOARD = Board(
    identity=BoardId.NVLINK,
    description="Which NVLinks are not up, which go wrong, and what flows over them; the fabric's domains.",
    variables=_VARIABLES,
    sections=(
        Section(panels=(_LINKS, _SILENT, _DOMAINS, _WRONG, _USED, _BIT_ERRORS)),
        Section(
            key="where",
            title="Which node, GPU and link",
            panels=(
                links_down(_RECORDED),
                failed_recoveries(_RECORDED),
                none_known(down_now(_SCOPE)),
                none_known(recovered_badly(_SCOPE)),
                node_by_link(_SCOPE),
            ),
        ),
        Section(
            key="errors",
            title="Recoveries, errors and bit errors",
            panels=(recoveries(_RECORDED), errors(_RECORDED), *bit_errors(_RECORDED)),
        ),
        Section(
            key="traffic",
            title="Throughput",
            panels=(of_racks(_SCOPE, _RECORDED), *of_gpus(_SCOPE, _RECORDED), *spread(_RECORDED)),
        ),
        Section(
            key="fabric",
            title="Fabric and its domains",
            panels=(
                domain_history(_RECORDED),
                domains(_RECORDED),
                registration(_SCOPE),
                *conditions(_SCOPE),
            ),
        ),
        Section(key="balance", title="Balance of links", panels=(uneven(_SCOPE),), collapsed=True),
    ),
    annotations=(
        Annotation(
            name="Failed recoveries",
            expr=f"{_RECORDED.selector(RECOVERIES, outcome='failed')} > 0",
            title="a link of {{rack}} failed to recover",
            colour=palette.FAILED,
        ),
    ),
)
