"""Every alert, by subject, in the order of the runbooks."""

from __future__ import annotations

from dashboards.rules.alerting import Alert, AlertGroup
from dashboards.rules.alerts_checks import check_alerts, own_check_alerts
from dashboards.rules.alerts_fabric import fabric_alerts, xid_alerts
from dashboards.rules.alerts_rack import availability_alerts, rack_alerts
from dashboards.rules.alerts_telemetry import service_alerts, telemetry_alerts
from dashboards.rules.alerts_tokens import token_alerts
from dashboards.rules.parameters import DEFAULTS, Parameters


def alert_groups(parameters: Parameters = DEFAULTS) -> tuple[AlertGroup, ...]:
    """Return all alerts by subject."""
    return (
        AlertGroup(name="rackwatt-alerts-rack", title="Racks and nodes", alerts=rack_alerts(parameters)),
        AlertGroup(
            name="rackwatt-alerts-availability",
            title="Availability",
            alerts=availability_alerts(parameters),
        ),
        AlertGroup(name="rackwatt-alerts-checks", title="Checks by impact", alerts=check_alerts(parameters)),
        AlertGroup(name="rackwatt-alerts-gpu", title="Single checks", alerts=own_check_alerts(parameters)),
        AlertGroup(name="rackwatt-alerts-nvlink", title="NVLink trends", alerts=fabric_alerts(parameters)),
        AlertGroup(name="rackwatt-alerts-xid", title="Xids", alerts=xid_alerts(parameters)),
        AlertGroup(
            name="rackwatt-alerts-tokens", title="Serving and energy", alerts=token_alerts(parameters)
        ),
        AlertGroup(name="rackwatt-alerts-telemetry", title="Telemetry", alerts=telemetry_alerts(parameters)),
        AlertGroup(name="rackwatt-alerts-service", title="Rack services", alerts=service_alerts(parameters)),
    )


ALERTS: tuple[Alert, ...] = tuple(alert for group in alert_groups() for alert in group.alerts)
"""Every alert, with the parameters that are committed."""
