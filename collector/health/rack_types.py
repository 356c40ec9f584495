"""What is known of a rack, as immutable data: what its agents said, and what was made of it.

The poller makes `NodeView`s out of Snapshots; the judge makes a `RackStatus` out of them; REST, metrics and
the ledger read that. Times are nanoseconds of Unix time, durations seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.health.samples import NO_SAMPLES, Samples
from collector.health.states import DomainState, GpuState, Impact, NodeState, Verdict
from collector.health.verdict import CliqueCount
from collector.model import CheckResult, Event, HistogramSample, Value


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU as its agent sees it.

    Attributes:
        uuid: Identity.
        index: Index for display.
        up: Whether it answers.
        texts: Labels of `gpu_info`; empty while it is lost.
        state: State by its checks.
        checks: Checks of it that failed or could not be evaluated.
    """

    uuid: str
    index: str
    up: bool
    texts: Mapping[str, str]
    state: GpuState
    checks: tuple[CheckResult, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeView:
    """What one Snapshot of a node says.

    Attributes:
        rack: Rack name that the agent reports.
        node: Node name that the agent reports.
        agent_id: Identity of the agent process.
        boot_id: The kernel's boot id.
        sequence: Number of the Snapshot within the agent process.
        observed_ns: When the Snapshot was taken.
        nvml_up: Whether NVML answers and its data are fresh.
        reason: Why not, in words.
        fast_age_seconds: Age of the fast data when polled; None if never read.
        identity: Labels of `node_info`.
        gpus: Its GPUs, missing ones included.
        gpus_expected: GPUs that its platform has; None if unknown.
        checks: Checks of the node itself that failed or could not be evaluated.
        cluster_uuid: NVLink domain of its GPUs; empty for none, or where they differ.
        clique: Clique of its GPUs; empty for none, or where they differ.
        fabric_complete: Whether every GPU has completed its fabric registration; None where there is no
            fabric to register with.
        chassis_serial: Serial of its rack; empty if unknown.
        slot: Slot in the rack; None if unknown.
        tray: Index among the compute trays; None if unknown.
    """

    rack: str
    node: str
    agent_id: str
    boot_id: str
    sequence: int
    observed_ns: int
    nvml_up: bool
    reason: str
    fast_age_seconds: float | None
    identity: Mapping[str, str]
    gpus: tuple[GpuView, ...]
    gpus_expected: int | None
    checks: tuple[CheckResult, ...] = ()
    cluster_uuid: str = ""
    clique: str = ""
    fabric_complete: bool | None = None
    chassis_serial: str = ""
    slot: int | None = None
    tray: int | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """What the poller knows of one expected node at an instant.

    Attributes:
        node: Name under which the node is expected.
        address: Where its agent listens.
        view: Newest Snapshot that could be used; None if there never was one.
        last_good_ns: When the last good poll was (NVML up, fast data at most 5 s old); None if never.
        error: Why the newest poll was not good, in words; empty if it was.
        witness: Whether a second witness says that the host is gone (True), that it answers (False), or
            nothing (None).
        samples: The newest values, for those who show them, made when asked for; empty while the node does
            not answer.
        histograms: The newest histograms; empty while the node does not answer.
        events: Events that are new since the last evaluation, oldest first.
    """

    node: str
    address: str
    view: NodeView | None = None
    last_good_ns: int | None = None
    error: str = ""
    witness: bool | None = None
    samples: Samples = NO_SAMPLES
    histograms: tuple[HistogramSample, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectedRack:
    """A rack as it is declared.

    Attributes:
        rack: Its name.
        platform: Name of its profile; empty to take what its nodes report.
        nodes: Names of the expected nodes, in the order of their slots.
        cliques: Declared cliques: name to node names; empty for one clique of all nodes, or, without a fabric
            over the rack, a domain a node.
        min_block: Configured minimum block; None for the default.
        slo: Share of time for which the rack should be available.
        gpus_per_node: GPUs of a node by the platform; None if unknown.
        modules_per_node: Superchip modules of a node by the platform; None if unknown, 0 where it has none.
        rack_wide_fabric: Whether the platform has one NVLink fabric over the rack.
    """

    rack: str
    platform: str
    nodes: tuple[str, ...]
    cliques: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    min_block: int | None = None
    slo: float = 0.99
    gpus_per_node: int | None = None
    modules_per_node: int | None = None
    rack_wide_fabric: bool = True


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is in its state.

    Attributes:
        check: Id of the check, or of the rack rule (`poll`, `witness`, `flapping`, `maintenance` …).
        impact: Its impact.
        text: In words: what, where, which value, what would be right.
        action: What to do.
        node: Node concerned, or empty.
        gpu_uuid: GPU concerned, or empty.
        metric: Metric that it was judged by, or empty.
        value: Value that was read, or None.
        threshold: What it was compared with, or None.
        since_ns: Since when it holds.
    """

    check: str
    impact: Impact
    text: str
    action: str
    node: str = ""
    gpu_uuid: str = ""
    metric: str = ""
    value: Value | None = None
    threshold: Value | None = None
    since_ns: int = 0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What was made of one node.

    Attributes:
        node: Its name.
        state: Its state.
        schedulable: Whether a job may be placed on it.
        since_ns: Since when it is in this state.
        reasons: Why, worst first.
        clique: Clique in which it is counted; empty if in none.
        latched: Whether it is held out because it failed too often.
        poll: What it was made of.
    """

    node: str
    state: NodeState
    schedulable: bool
    since_ns: int
    reasons: tuple[Reason, ...]
    clique: str
    latched: bool
    poll: Poll


@dataclass(frozen=True, slots=True)
class DomainStatus:
    """What was made of one NVLink domain, or clique of it.

    Attributes:
        cluster_uuid: The domain.
        clique: The clique.
        state: Its state.
        expected: Nodes that it should have.
        members: Nodes that report it.
        schedulable: Nodes of it that a job may be placed on.
        reasons: Why.
    """

    cluster_uuid: str
    clique: str
    state: DomainState
    expected: tuple[str, ...]
    members: tuple[str, ...]
    schedulable: tuple[str, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class RackStatus:
    """What was made of a rack.

    Attributes:
        rack: Its name.
        verdict: Whether it can be used.
        since_ns: Since when the verdict holds.
        min_block: Block of nodes that it must offer.
        largest_block: Block that it offers.
        observed_ns: When this was evaluated.
        generation: Rises with every change of anything but times and values.
        nodes: Every expected node, in the order of declaration.
        domains: Its domains and cliques.
        reasons: Why the verdict is not AVAILABLE, or what rack-wide rules found, worst first.
        frozen: Whether draining is held back because too many racks changed at once.
        cliques: Nodes of each clique by how they count; with it a verdict for another block can be given.
    """

    rack: str
    verdict: Verdict
    since_ns: int
    min_block: int
    largest_block: int
    observed_ns: int
    generation: int
    nodes: tuple[NodeStatus, ...]
    domains: tuple[DomainStatus, ...]
    reasons: tuple[Reason, ...]
    frozen: bool = False
    cliques: Mapping[str, CliqueCount] = field(default_factory=dict)
