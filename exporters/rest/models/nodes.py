"""Bodies about nodes and GPUs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from exporters.rest.models.common import (
    Envelope,
    GpuStateWord,
    ImpactWord,
    Moment,
    NodeStateWord,
    Part,
    ReasonBody,
    Text,
)


class GpuSummary(Part):
    """A GPU in one line."""

    gpu_uuid: Text
    gpu: Annotated[Text, Field(description="Index, for display: it moves when another GPU is lost.")]
    state: GpuStateWord


class NodePart(Part):
    """A node: its state and why, and what its agent said last."""

    node: Text
    rack: Text
    state: NodeStateWord
    schedulable: Annotated[bool, Field(description="Whether a job may be placed on it.")]
    since: Annotated[Moment | None, Field(description="Since when it is in this state.")]
    reasons: Annotated[list[ReasonBody], Field(description="Why, worst first.")]
    latched: Annotated[bool, Field(description="Whether it is held out because it failed too often.")]
    slot: Annotated[int | None, Field(description="Slot in the rack.")]
    tray: Annotated[int | None, Field(description="Index among the compute trays, from 0.")]
    cluster_uuid: Annotated[Text | None, Field(description="NVLink domain that its GPUs report.")]
    clique: Annotated[Text | None, Field(description="Clique that its GPUs report.")]
    agent: Annotated[Text | None, Field(description="Address of its agent.")]
    answers: Annotated[bool, Field(description="Whether the newest poll of its agent was good.")]
    silent_since: Annotated[
        Moment | None, Field(description="Last good poll, while polls are not good; null if there was none.")
    ]
    error: Annotated[Text | None, Field(description="Why the newest poll was not good.")]
    identity: Annotated[
        dict[Text, Text], Field(description="Labels of `rackwatt_node_info`, as its agent said last.")
    ]
    gpus_expected: Annotated[int | None, Field(description="GPUs that it should have.", ge=0)]
    gpus: Annotated[
        list[GpuSummary], Field(description="Its GPUs, lost ones included, as its agent said last.")
    ]


class NodesBody(Envelope):
    """The nodes of a rack."""

    rack: Text
    nodes: list[NodePart]


class NodeBody(NodePart, Envelope):
    """One node."""


class CheckBody(Part):
    """A check of a GPU that failed, or that could not be evaluated."""

    check: Text
    impact: Annotated[ImpactWord | Text, Field(description="As in reasons; a newer agent may know others.")]
    failed: Annotated[bool, Field(description="False: it could not be evaluated, so the GPU is UNKNOWN.")]
    text: Text
    action: Text
    metric: Text | None
    value: int | float | None
    threshold: int | float | None
    since: Moment | None


class LinksUp(Part):
    """The NVLinks of a GPU."""

    up: Annotated[int | None, Field(description="Links that are up.", ge=0)]
    expected: Annotated[int | None, Field(description="Links that should be.", ge=0)]


class GpuBody(Envelope):
    """One GPU."""

    gpu_uuid: Text
    gpu: Annotated[Text, Field(description="Index, for display.")]
    rack: Text
    node: Text
    node_state: Annotated[
        NodeStateWord, Field(description="State of its node: how far the rest is to be believed.")
    ]
    state: GpuStateWord
    up: Annotated[bool, Field(description="Whether it answers.")]
    recovery_action: Annotated[
        Text | None, Field(description="What the driver asks for; null if the GPU does not say.")
    ]
    fabric_state: Annotated[
        Text | None, Field(description="State of its fabric registration; null if the GPU does not say.")
    ]
    nvlinks: LinksUp
    info: Annotated[
        dict[Text, Text], Field(description="Labels of `rackwatt_gpu_info`; none while it is lost.")
    ]
    checks: list[CheckBody]
