"""Bodies about whole racks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from exporters.rest.models.common import (
    DomainStateWord,
    Envelope,
    Moment,
    NodeStateWord,
    Part,
    ReasonBody,
    Text,
    VerdictWord,
)


class Counts(Part):
    """Nodes by state, each counted once, and GPUs."""

    expected: Annotated[int, Field(description="Nodes that the rack should have, as declared.", ge=0)]
    ready: Annotated[int, Field(ge=0)]
    degraded: Annotated[int, Field(ge=0)]
    failed: Annotated[int, Field(ge=0)]
    maintenance: Annotated[int, Field(ge=0)]
    unknown: Annotated[int, Field(ge=0)]
    gpus_usable: Annotated[
        int, Field(description="GPUs that are OK or DEGRADED, on nodes that are READY or DEGRADED.", ge=0)
    ]
    gpus_expected: Annotated[
        int | None,
        Field(description="GPUs that the rack should have; null while nothing says how many.", ge=0),
    ]


class LargestBlock(Part):
    """The most schedulable nodes within one clique: the block that a job can have."""

    domain: Annotated[
        Text | None, Field(description="Its NVLink domain; null where the rack has none, or it is not known.")
    ]
    clique: Annotated[Text | None, Field(description="Its clique; null where there is none.")]
    nodes: Annotated[int, Field(description="Schedulable nodes.", ge=0)]
    segments: Annotated[
        dict[str, int],
        Field(description="How many separate segments of 1, 2, 4, 8 … nodes fit into this block, by size."),
    ]


class DrainBudget(Part):
    """Whether one more node may be drained without losing the minimum block."""

    max_unavailable: Annotated[
        int,
        Field(description="Nodes of the largest block's clique that may be missing.", ge=0),
    ]
    used: Annotated[int, Field(description="Nodes of it that are missing.", ge=0)]
    allow: Annotated[
        bool,
        Field(
            description="False once the budget is used up, and always while `frozen`: then many racks changed"
            " at once, which more likely is a fault of monitoring than of racks."
        ),
    ]


class AvoidedNode(Part):
    """A node on which no job may be placed."""

    node: Text
    state: NodeStateWord
    action: Annotated[Text, Field(description="What to do about it.")]
    since: Annotated[Moment | None, Field(description="Since when it is in this state.")]
    reason: Annotated[Text | None, Field(description="Id of the check or rule that weighs most.")]
    text: Annotated[Text | None, Field(description="That reason in words.")]
    evidence: Annotated[
        list[Text],
        Field(description="Where to look: the node's events from ten minutes before on, and the GPU."),
    ]
    drain: Annotated[
        Literal["immediate", "when_idle", "none"],
        Field(
            description="What running jobs need: `immediate` (it is FAILED), `when_idle` (let them end),"
            " `none` (nothing says that they are in danger: UNKNOWN, or in maintenance)."
        ),
    ]


class RackSummary(Part):
    """A rack in short."""

    rack: Text
    platform: Annotated[Text | None, Field(description="Name of its platform's profile.")]
    verdict: VerdictWord
    sentence: Annotated[Text, Field(description="The verdict in one sentence.")]
    since: Annotated[Moment | None, Field(description="Since when the verdict holds.")]
    min_block: Annotated[int, Field(description="Nodes that its largest block must have.", ge=1)]
    largest_block: Annotated[int, Field(description="Nodes that it has.", ge=0)]
    counts: Counts
    frozen: Annotated[bool, Field(description="Whether draining is held back (`drain_budget.allow`).")]


class RacksBody(Envelope):
    """All racks of the service."""

    racks: list[RackSummary]


class NodeSummary(Part):
    """A node in one line."""

    node: Text
    state: NodeStateWord
    schedulable: bool
    since: Moment | None
    slot: int | None
    tray: int | None


class DomainBody(Part):
    """An NVLink domain, or a clique of it."""

    rack: Text
    cluster_uuid: Annotated[Text | None, Field(description="The domain; null while nobody reports it.")]
    clique: Annotated[Text | None, Field(description="The clique.")]
    state: DomainStateWord
    expected: Annotated[list[Text], Field(description="Nodes that it should have.")]
    members: Annotated[list[Text], Field(description="Nodes that report it.")]
    schedulable: Annotated[list[Text], Field(description="Its nodes on which a job may be placed.")]
    reasons: list[ReasonBody]


class DomainsBody(Envelope):
    """The NVLink domains of all racks."""

    domains: list[DomainBody]


class RackBody(Envelope):
    """A rack with its nodes, domains and reasons in short."""

    rack: Text
    platform: Annotated[Text | None, Field(description="Name of its platform's profile.")]
    verdict: VerdictWord
    sentence: Annotated[Text, Field(description="The verdict in one sentence.")]
    since: Moment | None
    min_block: Annotated[int, Field(ge=1)]
    largest_block: Annotated[int, Field(ge=0)]
    counts: Counts
    frozen: bool
    nodes: Annotated[list[NodeSummary], Field(description="Every expected node, as declared.")]
    domains: list[DomainBody]
    reasons: list[ReasonBody]
    links: Annotated[dict[str, str], Field(description="Where more is told, by subject.")]


class HealthBody(Envelope):
    """One call for schedulers and drain controllers: what can be used, what not, why, what to do."""

    rack: Text
    verdict: Annotated[VerdictWord, Field(description="The verdict for `min_block`.")]
    sentence: Annotated[Text, Field(description="The verdict in one sentence.")]
    since: Annotated[
        Moment | None,
        Field(description="Since when it holds; null for another block than the rack's own."),
    ]
    min_block: Annotated[int, Field(description="Block that was asked for, else the rack's own.", ge=1)]
    counts: Counts
    largest_block: LargestBlock
    segments: Annotated[
        dict[str, int],
        Field(description="How many separate segments of 1, 2, 4, 8 … nodes all cliques have, by size."),
    ]
    schedulable: Annotated[list[Text], Field(description="Nodes on which a job may be placed.")]
    avoid: Annotated[list[AvoidedNode], Field(description="All others, FAILED ones first.")]
    drain_budget: DrainBudget
    frozen: bool
    reasons: Annotated[list[ReasonBody], Field(description="Why, worst first.")]
