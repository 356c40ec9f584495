"""Which format and encoding a client gets."""

from __future__ import annotations

import pytest

from exporters.negotiation import accepts_gzip
from exporters.prometheus import TextFormat, negotiate

# Sent by Debian's Prometheus 2.42.0.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
# As Prometheus 3 builds it: https://prometheus.io/docs/instrumenting/content_negotiation/
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@pytest.mark.parametrize(
    "accept",
    [
        PROMETHEUS_2,
        PROMETHEUS_3,
        "application/openmetrics-text",
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        'application/openmetrics-text; version="1.0.0"',
        "APPLICATION/OpenMetrics-Text ; Version=1.0.0",
        "application/openmetrics-text, */*",
        "application/*",
        "text/plain;q=0.2, application/openmetrics-text;q=0.3",
        "text/plain;q=0, */*",
        "text/plain;version=1.0.0, application/openmetrics-text;version=1.0.0;q=0.1",
    ],
)
def test_openmetrics_for_who_prefers_it(accept: str) -> None:
    assert negotiate(accept) is TextFormat.OPENMETRICS


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        BROWSER,
        "text/plain",
        "text/*",
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "text/plain, application/openmetrics-text",
        "text/plain;q=0.3, application/openmetrics-text;q=0.2",
        "application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5",
        "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=0, */*",
        "application/openmetrics-text;q=nan",
        "application/openmetrics-text;q=2",
        "application/openmetrics-text;q=-1",
        "image/png",
        ",;,;;=,q=1,/",
        "\x00\xff",
    ],
)
def test_plain_text_for_everybody_else(accept: str) -> None:
    assert negotiate(accept) is TextFormat.PLAIN


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=0.5, br", True),
        ("*", True),
        ("gzip;q=1.0, identity;q=0.5", True),
        ("", False),
        ("identity", False),
        ("br, deflate", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip;q=0.2, identity;q=0.8", False),
        ("gzip;q=x", False),
        ("*;q=0", False),
    ],
)
def test_gzip_only_for_who_accepts_it(accept_encoding: str, expected: bool) -> None:
    assert accepts_gzip(accept_encoding) is expected
