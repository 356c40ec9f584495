"""One example a body, as OpenAPI shows it; a test holds each against its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from exporters.rest.examples_efficiency import BASELINE, EFFICIENCY
from exporters.rest.models.baselines import BaselineBody, BaselinesBody
from exporters.rest.models.discovery import TargetGroups
from exporters.rest.models.efficiency import EfficiencyBody
from exporters.rest.models.history import AvailabilityBody, EventsBody
from exporters.rest.models.maintenance import WindowBody, WindowsBody
from exporters.rest.models.nodes import GpuBody, NodeBody, NodesBody
from exporters.rest.models.racks import DomainsBody, HealthBody, RackBody, RacksBody

Example = Mapping[str, object]

_ENVELOPE: Example = {"observed_at": "2026-11-30T10:00:00.000Z", "stale_after_s": 15.0, "generation": 412}
_SINCE = "2026-11-30T09:41:10.000Z"
_NODES = [f"n{number:02d}" for number in range(1, 19)]
_OUT = ["n07", "n12"]
_SCHEDULABLE = [node for node in _NODES if node not in _OUT]
_DOMAIN = "5b3e7c1a-9f64-4f0e-8a0d-2c7f1e9b6d42"
_GPU = "GPU-3f0a4a52-6c1e-4b0b-9a53-0f5a8d1c7e21"
_SENTENCE = "r01 is available: the largest block has 16 of 18 nodes and must have 16."
_AVOID_N07 = "reboot the node; if the GPU stays away, have it serviced"

_LOST: Example = {
    "check": "gpu_lost",
    "impact": "fail",
    "text": "GPU 2 does not answer",
    "action": _AVOID_N07,
    "node": "n07",
    "gpu_uuid": _GPU,
    "metric": "rackwatt_gpu_up",
    "value": 0.0,
    "threshold": 1.0,
    "since": _SINCE,
}
_DECLARED: Example = {
    "check": "maintenance",
    "impact": "avoid",
    "text": "declared maintenance m-0a1b2c3d4e5f: exchange a fan",
    "action": "Wait for its end, or end it.",
    "node": "n12",
    "gpu_uuid": None,
    "metric": None,
    "value": None,
    "threshold": None,
    "since": "2026-11-30T08:00:00.000Z",
}
_COUNTS: Example = {
    "expected": 18,
    "ready": 16,
    "degraded": 0,
    "failed": 1,
    "maintenance": 1,
    "unknown": 0,
    "gpus_usable": 64,
    "gpus_expected": 72,
}
_SUMMARY: Example = {
    "rack": "r01",
    "platform": "gb300-nvl72",
    "verdict": "AVAILABLE",
    "sentence": _SENTENCE,
    "since": "2026-11-21T06:12:44.000Z",
    "min_block": 16,
    "largest_block": 16,
    "counts": _COUNTS,
    "frozen": False,
}
_DOMAIN_PART: Example = {
    "rack": "r01",
    "cluster_uuid": _DOMAIN,
    "clique": "1",
    "state": "DEGRADED",
    "expected": _NODES,
    "members": _NODES,
    "schedulable": _SCHEDULABLE,
    "reasons": [_LOST, _DECLARED],
}
_NODE: Example = {
    "node": "n07",
    "rack": "r01",
    "state": "FAILED",
    "schedulable": False,
    "since": _SINCE,
    "reasons": [_LOST],
    "latched": False,
    "slot": 14,
    "tray": 6,
    "cluster_uuid": _DOMAIN,
    "clique": "1",
    "agent": "n07:10072",
    "answers": True,
    "silent_since": None,
    "error": None,
    "identity": {"hostname": "n07", "platform": "gb300-nvl72", "driver_version": "580.95.05"},
    "gpus_expected": 4,
    "gpus": [
        {"gpu_uuid": "GPU-0d8c2f6e-11aa-4c7f-b0c8-6b1f5f0a9e10", "gpu": "0", "state": "OK"},
        {"gpu_uuid": _GPU, "gpu": "2", "state": "FAILED"},
    ],
}
_WINDOW: Example = {
    "id": "m-0a1b2c3d4e5f",
    "rack": "r01",
    "nodes": ["n12"],
    "starts_at": "2026-11-30T08:00:00.000Z",
    "ends_at": "2026-11-30T12:00:00.000Z",
    "declared_at": "2026-11-30T07:55:31.402Z",
    "reason": "exchange a fan",
    "created_by": "dc-operations",
    "active": True,
}

EXAMPLES: Mapping[type[BaseModel], object] = {
    RacksBody: {**_ENVELOPE, "racks": [_SUMMARY]},
    RackBody: {
        **_ENVELOPE,
        **_SUMMARY,
        "nodes": [
            {
                "node": "n07",
                "state": "FAILED",
                "schedulable": False,
                "since": _SINCE,
                "slot": 14,
                "tray": 6,
            }
        ],
        "domains": [_DOMAIN_PART],
        "reasons": [],
        "links": {"health": "/v1/racks/r01/health", "events": "/v1/events?rack=r01"},
    },
    HealthBody: {
        **_ENVELOPE,
        "rack": "r01",
        "verdict": "AVAILABLE",
        "sentence": _SENTENCE,
        "since": "2026-11-21T06:12:44.000Z",
        "min_block": 16,
        "counts": _COUNTS,
        "largest_block": {
            "domain": _DOMAIN,
            "clique": "1",
            "nodes": 16,
            "segments": {"16": 1, "8": 2, "4": 4, "2": 8, "1": 16},
        },
        "segments": {"16": 1, "8": 2, "4": 4, "2": 8, "1": 16},
        "schedulable": _SCHEDULABLE,
        "avoid": [
            {
                "node": "n07",
                "state": "FAILED",
                "action": _AVOID_N07,
                "since": _SINCE,
                "reason": "gpu_lost",
                "text": "GPU 2 does not answer",
                "evidence": [
                    "/v1/events?rack=r01&node=n07&since=2026-11-30T09:31:10.000Z",
                    f"/v1/gpus/{_GPU}",
                ],
                "drain": "immediate",
            },
            {
                "node": "n12",
                "state": "MAINTENANCE",
                "action": "Wait for its end, or end it.",
                "since": "2026-11-30T08:00:00.000Z",
                "reason": "maintenance",
                "text": "declared maintenance m-0a1b2c3d4e5f: exchange a fan",
                "evidence": ["/v1/events?rack=r01&node=n12&since=2026-11-30T07:50:00.000Z"],
                "drain": "none",
            },
        ],
        "drain_budget": {"max_unavailable": 2, "used": 2, "allow": False},
        "frozen": False,
        "reasons": [_LOST, _DECLARED],
    },
    NodesBody: {**_ENVELOPE, "rack": "r01", "nodes": [_NODE]},
    NodeBody: {**_ENVELOPE, **_NODE},
    GpuBody: {
        **_ENVELOPE,
        "gpu_uuid": "GPU-0d8c2f6e-11aa-4c7f-b0c8-6b1f5f0a9e10",
        "gpu": "0",
        "rack": "r01",
        "node": "n07",
        "node_state": "FAILED",
        "state": "DEGRADED",
        "up": True,
        "recovery_action": "none",
        "fabric_state": "completed",
        "nvlinks": {"up": 17, "expected": 18},
        "info": {"name": "NVIDIA GB300", "serial": "1652725012345", "slot": "14", "tray": "6"},
        "checks": [
            {
                "check": "gpu_nvlinks_missing",
                "impact": "avoid",
                "failed": True,
                "text": "17 of 18 NVLinks are up; down: link 4",
                "action": "reset the GPU; if the link stays down, have tray and cable cartridge looked at",
                "metric": "rackwatt_gpu_nvlinks_up",
                "value": 17.0,
                "threshold": 18.0,
                "since": _SINCE,
            }
        ],
    },
    DomainsBody: {**_ENVELOPE, "domains": [_DOMAIN_PART]},
    AvailabilityBody: {
        **_ENVELOPE,
        "rack": "r01",
        "window": "30d",
        "starts_at": "2026-10-31T10:00:00.000Z",
        "ends_at": "2026-11-30T10:00:00.000Z",
        "min_block": None,
        "slo": 0.99,
        "low": 0.9931,
        "point": 0.9953,
        "high": 0.9953,
        "coverage": 0.9978,
        "insufficient_data": False,
        "available_s": 2574115.0,
        "unavailable_s": 12155.0,
        "unknown_s": 5100.0,
        "uncovered_s": 630.0,
        "excused_s": 0.0,
        "budget_s": 25920.0,
        "budget_used": 0.469,
        "incidents": 7,
        "open_incidents": 1,
        "mtbf_h": 1846.0,
        "mttr_h": 5.2,
    },
    EfficiencyBody: {**_ENVELOPE, **EFFICIENCY},
    BaselinesBody: {**_ENVELOPE, "baselines": [BASELINE]},
    BaselineBody: {**_ENVELOPE, **BASELINE},
    EventsBody: {
        **_ENVELOPE,
        "events": [
            {
                "id": "991",
                "at": "2026-11-30T09:41:08.214Z",
                "rack": "r01",
                "node": "n07",
                "gpu_uuid": _GPU,
                "gpu": "2",
                "kind": "xid",
                "code": 79,
                "text": None,
            }
        ],
        "next": "991",
    },
    WindowsBody: {**_ENVELOPE, "windows": [_WINDOW]},
    WindowBody: {**_ENVELOPE, **_WINDOW},
    TargetGroups: [{"targets": ["n01:10072"], "labels": {"rack": "r01", "node": "n01"}}],
}
"""An example for every body."""


def answers(
    body: type[BaseModel], status: int = 200, description: str = ""
) -> dict[int | str, dict[str, Any]]:
    """Describe for OpenAPI what a route answers, with an example."""
    return {
        status: {
            "model": body,
            "description": description or (body.__doc__ or "").strip().splitlines()[0],
            "content": {"application/json": {"example": EXAMPLES[body]}},
        }
    }
