"""Grafana dashboards and Prometheus rules, generated from the catalogue that the exporters use."""
