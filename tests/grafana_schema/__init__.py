"""Grafana's own types as JSON schemas, made from the npm package @grafana/schema on first use."""
