"""Pictures of the dashboards, drawn from what their queries answer, for readers without a Grafana."""
