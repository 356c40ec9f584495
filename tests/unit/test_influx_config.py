"""The key `influxdb`: what it comes to, and what is said of mistakes."""

from __future__ import annotations

import pytest

from collector.catalog.spec import Level
from collector.config import AgentConfiguration, parse_agent, parse_rack_service
from collector.config.schema import InfluxdbSetting, SpoolSetting
from collector.config.values import byte_count, show_bytes
from collector.errors import ConfigurationError

PLATFORMS = ("gb300-nvl72",)
MIB = 1_048_576
RACKS = b'racks: {r01: {platform: gb300-nvl72, agents: ["n01:10072"]}}\n'


def setting(text: str) -> InfluxdbSetting:
    configuration = parse_agent(text.encode(), "f.yaml", PLATFORMS)
    assert configuration.influxdb is not None
    return configuration.influxdb


def mistake(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_agent(text.encode(), "f.yaml", PLATFORMS)
    return str(caught.value)


def test_nothing_is_written_unless_it_is_configured() -> None:
    assert AgentConfiguration().influxdb is None


def test_the_example_of_the_contract_is_read() -> None:
    # CONTRACTS §6.
    text = """\
influxdb:
  url: http://influxdb:8086
  org: ops
  bucket: gpu
  token_file: /etc/rackwatt/influx.token
  spool: {path: /var/lib/rackwatt/spool, max_bytes: 512MiB, max_age: 7d}
"""
    assert setting(text) == InfluxdbSetting(
        url="http://influxdb:8086",
        org="ops",
        bucket="gpu",
        token_file="/etc/rackwatt/influx.token",  # noqa: S106 -- a path
        spool=SpoolSetting(path="/var/lib/rackwatt/spool", max_bytes=536_870_912, max_age_seconds=604_800.0),
    )


def test_the_defaults_are_those_of_the_contract() -> None:
    default = setting("influxdb: {url: 'http://h:8428', bucket: gpu}")
    assert default.spool == SpoolSetting(path=None, max_bytes=512 * MIB, max_age_seconds=7 * 24 * 3600.0)
    assert (default.level, default.families, default.exclude, default.events) == (
        Level.FULL,
        ("*",),
        (),
        True,
    )


def test_every_other_key_is_read() -> None:
    text = """\
influxdb:
  url: https://influx.example/base/
  bucket: telegraf/autogen
  ca_file: /etc/rackwatt/ca.pem
  level: core
  families: [gpu, "llm_*"]
  exclude: [gpu_info]
  periods: {fast: 5s, links: 1m, "gpu_power_*": 1s}
  events: false
"""
    assert setting(text) == InfluxdbSetting(
        url="https://influx.example/base",
        bucket="telegraf/autogen",
        ca_file="/etc/rackwatt/ca.pem",
        level=Level.CORE,
        families=("gpu", "llm_*"),
        exclude=("gpu_info",),
        periods_seconds={"fast": 5.0, "links": 60.0},
        periods_of=(("gpu_power_*", 1.0),),
        events=False,
    )


def test_a_rack_service_has_the_same_key() -> None:
    text = RACKS + b"influxdb: {url: 'http://h:8086', bucket: racks}\n"
    assert parse_rack_service(text, "f.yaml").influxdb == InfluxdbSetting(url="http://h:8086", bucket="racks")
    assert parse_rack_service(RACKS, "f.yaml").influxdb is None


MISTAKES = {
    "no keys": ("influxdb: yes", "influxdb: expected keys (url, org, bucket, "),
    "no address": (
        "influxdb: {bucket: b}",
        "influxdb.url: is missing; write one such as http://influxdb:8086",
    ),
    "no bucket": ("influxdb: {url: 'http://h'}", "influxdb.bucket: is missing; write one such as gpu"),
    "an address that is none": (
        "influxdb: {url: 'h:8086', bucket: b}",
        "influxdb.url: 'h:8086' is not an address such as",
    ),
    "a password in the address": (
        "influxdb: {url: 'http://u:hunter2@h', bucket: b}",
        "influxdb.url: the address holds a user or password; name files with them instead",
    ),
    "a query in the address": (
        "influxdb: {url: 'http://h/?db=x', bucket: b}",
        "influxdb.url: 'http://h/?db=x': what follows '?' cannot be kept; give org and bucket as keys",
    ),
    "the write path in the address": (
        "influxdb: {url: 'http://h/api/v2/write', bucket: b}",
        "influxdb.url: 'http://h/api/v2/write': the write path is added by itself; leave it out",
    ),
    "a certificate for http": (
        "influxdb: {url: 'http://h', bucket: b, ca_file: /ca.pem}",
        "influxdb.ca_file: stands beside an address of http, which has no certificate",
    ),
    "a token in the file": (
        "influxdb: {token: abc}",
        "influxdb.token: unknown key; did you mean 'token_file'?",
    ),
    "a size without a unit": (
        "influxdb: {url: 'http://h', bucket: b, spool: {max_bytes: 512}}",
        "influxdb.spool.max_bytes: '512' is not a size; write a whole number and a unit, such as 64MiB,",
    ),
    "a size of decimal prefix": (
        "influxdb: {url: 'http://h', bucket: b, spool: {max_bytes: 512MB}}",
        "influxdb.spool.max_bytes: '512MB' is not a size",
    ),
    "a size too small": (
        "influxdb: {url: 'http://h', bucket: b, spool: {max_bytes: 1MiB}}",
        "influxdb.spool.max_bytes: 1MiB is out of bounds; 4MiB to 1TiB is allowed",
    ),
    "an age too short": (
        "influxdb: {url: 'http://h', bucket: b, spool: {max_age: 1s}}",
        "influxdb.spool.max_age: 1s is out of bounds; 1m to 366d is allowed",
    ),
    "a family that is none": (
        "influxdb: {url: 'http://h', bucket: b, families: ['GPU power']}",
        "influxdb.families: 'GPU power' is not a family: a measurement such as nvlink, or a pattern",
    ),
    "no families": (
        "influxdb: {url: 'http://h', bucket: b, families: []}",
        "influxdb.families: expected a list such as [gpu, nvlink], found a list",
    ),
    "a period that is none": (
        "influxdb: {url: 'http://h', bucket: b, periods: {fast: soon}}",
        "influxdb.periods.'fast': 'soon' is not a duration",
    ),
    "a level that is none": (
        "influxdb: {url: 'http://h', bucket: b, level: ful}",
        "influxdb.level: 'ful' is unknown; did you mean 'full'?",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_what_would_be_right(name: str) -> None:
    text, told = MISTAKES[name]
    assert told in mistake(text + "\n")


def test_a_password_in_an_address_is_not_repeated() -> None:
    assert "hunter2" not in mistake("influxdb: {url: 'http://u:hunter2@h', bucket: b}\n")


@pytest.mark.parametrize(
    ("text", "count"), [("1KiB", 1024), ("64MiB", 67_108_864), ("2GiB", 2_147_483_648), ("1TiB", 2**40)]
)
def test_a_size_is_read_in_its_unit_and_written_alike(text: str, count: int) -> None:
    assert byte_count(text, 0, 2**41) == count
    assert show_bytes(count) == text


@pytest.mark.parametrize(
    "text", ["", "1", "KiB", "-1MiB", "1.5GiB", "1 MiB", "1mib", "1MB", "\u0663MiB", "1KiBKiB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        byte_count(text, 0, 2**41)
