"""Recording rules, alerts and their tests for Prometheus, generated from the catalogue and the checks."""
