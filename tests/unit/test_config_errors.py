"""Every mistake in a configuration is one line: place, key, what is wrong, what would be right."""

from __future__ import annotations

import pytest

from collector.config import load_agent, parse_agent
from collector.config.document import MAX_BYTES
from collector.errors import ConfigurationError

PLATFORMS = ("gb300-nvl72", "hgx-h100")

# Text of a file, and the one line that it must bring about.
MISTAKES = {
    "unknown key with a near one": (
        "sampling:\n  fasst: 1s\n",
        "f.yaml:2:3: sampling.fasst: unknown key; did you mean 'fast'?",
    ),
    "unknown key with none near": (
        "prometheus: {zzz: 1}\n",
        "f.yaml:1:14: prometheus.zzz: unknown key; valid are enabled",
    ),
    "unknown key in other case": ("Rack: r01\n", "f.yaml:1:1: Rack: unknown key; did you mean 'rack'?"),
    "unknown key that cannot be printed": (
        '"ra\\nck": r01\n',
        "f.yaml:1:1: 'ra\\nck': unknown key; did you mean 'rack'?",
    ),
    "serving that is none": (
        "serving: {url: x}\n",
        "f.yaml:1:10: serving: expected a list such as"
        ' [{name: decode-0, url: "http://127.0.0.1:8000/metrics"}], found keys',
    ),
    "an endpoint that is text": (
        "serving: [x]\n",
        "f.yaml:1:11: serving: expected keys (name, url, engine, role, gpus, ca_file, token_file), found 'x'",
    ),
    "an endpoint without an address": (
        "serving: [{name: a}]\n",
        "f.yaml:1:11: serving.url: is missing; write where the metrics are: http://127.0.0.1:8000/metrics",
    ),
    "an address that is none": (
        "serving: [{url: localhost/metrics}]\n",
        "f.yaml:1:17: serving.url: 'localhost/metrics' is not an address such as http://127.0.0.1:8000/metrics",
    ),
    "an address of another kind": (
        "serving: [{url: ftp://h/metrics}]\n",
        "f.yaml:1:17: serving.url: 'ftp://h/metrics' is not an address such as http://127.0.0.1:8000/metrics",
    ),
    "an address with a space": (
        "serving: [{url: 'http://h/a b'}]\n",
        "f.yaml:1:17: serving.url: the address holds a space, or a character that an address cannot have",
    ),
    "an address with a port that is none": (
        "serving: [{url: 'http://h:99999/metrics'}]\n",
        "f.yaml:1:17: serving.url: 'http://h:99999/metrics' is not an address such as"
        " http://127.0.0.1:8000/metrics",
    ),
    "an address with a password, which is not repeated": (
        "serving: [{url: 'http://me:secret@h/metrics'}]\n",
        "f.yaml:1:17: serving.url: the address holds a user or password; name files with them instead",
    ),
    "a broken address with a password, which is not repeated": (
        "serving: [{url: 'me:secret@h/metrics'}]\n",
        "f.yaml:1:17: serving.url: it is not an address such as http://127.0.0.1:8000/metrics",
    ),
    "an address with a fragment": (
        "serving: [{url: 'http://h/metrics#x'}]\n",
        "f.yaml:1:17: serving.url: 'http://h/metrics#x': what follows '#' means nothing to a server;"
        " remove it",
    ),
    "an address that is too long": (
        f"serving: [{{url: 'http://h/{'x' * 2000}'}}]\n",
        "f.yaml:1:17: serving.url: an address of 2009 characters; 2000 at most are allowed",
    ),
    "an address without a path": (
        "serving: [{url: 'http://h:8000'}]\n",
        "f.yaml:1:17: serving.url: 'http://h:8000' has no path; that of the metrics is usually /metrics,"
        " of TensorRT-LLM /prometheus/metrics",
    ),
    "an address of TensorRT-LLM without a path": (
        "serving: [{url: 'http://h:8000/', engine: tensorrt_llm}]\n",
        "f.yaml:1:17: serving.url: 'http://h:8000/' has no path; that of the metrics is usually"
        " /prometheus/metrics",
    ),
    "the statistics of TensorRT-LLM, which reading empties": (
        "serving: [{engine: tensorrt_llm, url: 'http://h:8000/metrics'}]\n",
        "f.yaml:1:39: serving.url: /metrics of TensorRT-LLM is JSON that every reader empties for the others;"
        " write /prometheus/metrics",
    ),
    "an engine in another spelling": (
        "serving: [{url: 'http://h/metrics', engine: TensorRT-LLM}]\n",
        "f.yaml:1:45: serving.engine: 'TensorRT-LLM' is unknown; did you mean 'tensorrt_llm'?",
    ),
    "an engine that is not known": (
        "serving: [{url: 'http://h/metrics', engine: zx81}]\n",
        "f.yaml:1:45: serving.engine: 'zx81' is unknown; valid are auto, vllm, sglang, tensorrt_llm, dynamo,"
        " llama_cpp",
    ),
    "a role that is none": (
        "serving: [{url: 'http://h/metrics', role: worker}]\n",
        "f.yaml:1:43: serving.role: 'worker' is unknown; valid are engine, router",
    ),
    "GPUs that are none": (
        "serving: [{url: 'http://h/metrics', gpus: all}]\n",
        "f.yaml:1:43: serving.gpus: expected indices of GPUs such as [0, 1], found 'all'",
    ),
    "a GPU that is none": (
        "serving: [{url: 'http://h/metrics', gpus: [0, 256]}]\n",
        "f.yaml:1:47: serving.gpus: '256' is no index of a GPU, 0 to 255",
    ),
    "a GPU that is a list": (
        "serving: [{url: 'http://h/metrics', gpus: [[0]]}]\n",
        "f.yaml:1:44: serving.gpus: a list is no index of a GPU, 0 to 255",
    ),
    "a GPU twice": (
        "serving: [{url: 'http://h/metrics', gpus: [1, 1]}]\n",
        "f.yaml:1:47: serving.gpus: 1 stands twice; once is right",
    ),
    "a name of an endpoint that is none": (
        "serving: [{url: 'http://h/metrics', name: a b}]\n",
        "f.yaml:1:43: serving.name: 'a b' is not a name: 1 to 128 letters, digits, '.', '_', '-' or ':'",
    ),
    "endpoints of one name": (
        "serving: [{url: 'http://h/metrics'}, {url: 'http://h/other'}]\n",
        "f.yaml:1:10: serving: 2 endpoints are called 'h:80'; give each its `name`",
    ),
    "an endpoint that stands twice": (
        "serving: [{url: 'http://h/metrics'}, {name: b, url: 'HTTP://H:80/metrics'}]\n",
        "f.yaml:1:10: serving: 'http://h:80/metrics' stands 2 times; once is right, as its tokens count each"
        " time",
    ),
    "too many endpoints": (
        f"serving: [{', '.join(['x'] * 65)}]\n",
        "f.yaml:1:10: serving: 65 items; 64 at most are allowed",
    ),
    "endpoints that are read too often": (
        "sampling: {serving: 500ms}\n",
        "f.yaml:1:21: sampling.serving: 500ms is out of bounds; 1s to 1m is allowed",
    ),
    "a check that does not exist": (
        "checks: {gpu_temprature_margin: {threshold: 5}}\n",
        "f.yaml:1:10: checks.gpu_temprature_margin: unknown key; did you mean 'gpu_temperature_margin'?",
    ),
    "a check without a threshold": (
        "checks: {gpu_lost: {threshold: 1}}\n",
        "f.yaml:1:10: checks.gpu_lost: has no threshold that could be changed; remove it",
    ),
    "a threshold that is missing": (
        "checks: {nvlink_errors: {}}\n",
        "f.yaml:1:25: checks.nvlink_errors.threshold: is missing",
    ),
    "a threshold that is no number": (
        "checks: {nvlink_errors: {threshold: many}}\n",
        "f.yaml:1:37: checks.nvlink_errors.threshold: 'many' is not a number such as 1",
    ),
    "a threshold out of bounds": (
        "checks: {gpu_clock_events: {threshold: 2}}\n",
        "f.yaml:1:40: checks.gpu_clock_events.threshold: 2 is out of bounds;"
        " 0 to 1 minutes with a clock event, a minute is allowed",
    ),
    "checks that are none": (
        "checks: 5\n",
        "f.yaml:1:9: checks: expected checks, such as gpu_temperature_margin, found '5'",
    ),
    "an Xid that is none": (
        "xids: {ninety: {repeat: 1}}\n",
        "f.yaml:1:8: xids.'ninety': not the number of an Xid, such as 94",
    ),
    "a class of Xids that does not exist": (
        "xids: {94: {severity: bad}}\n",
        "f.yaml:1:23: xids.94.severity: 'bad' is unknown; valid are fatal, warn, app, info",
    ),
    "a repetition that is none": (
        "xids: {94: {repeat: -1}}\n",
        "f.yaml:1:21: xids.94.repeat: '-1' is not a number of times: 0, which is never, to 1000",
    ),
    "an Xid without keys": (
        "xids: {94: fatal}\n",
        "f.yaml:1:12: xids.94: expected keys (severity, repeat), found 'fatal'",
    ),
    "Xids that are none": (
        "xids: []\n",
        "f.yaml:1:7: xids: expected numbers of Xids, such as 94, found a list",
    ),
    "web_config": (
        "web_config: /x\n",
        "f.yaml:1:1: web_config: is not supported by this version of rackwatt; remove it",
    ),
    "api_token_file": (
        "api_token_file: /x\n",
        "f.yaml:1:1: api_token_file: is not supported by this version of rackwatt; remove it",
    ),
    "a file of the rack service": (
        "racks: {}\n",
        "f.yaml:1:1: racks: belongs to the rack service, `rackwatt rack`; remove it",
    ),
    "rack is no name": (
        "rack: row 1/r01\n",
        "f.yaml:1:7: rack: 'row 1/r01' is not a name: 1 to 64 letters, digits, '.', '_' or '-'",
    ),
    "node is too long": (
        f"node: {'n' * 65}\n",
        f"f.yaml:1:7: node: '{'n' * 57}...' is not a name: 1 to 64 letters, digits, '.', '_' or '-'",
    ),
    "rack is empty": ("rack:\n", "f.yaml:1:6: rack: expected a name such as r01, found nothing"),
    "rack is null": ("rack: ~\n", "f.yaml:1:7: rack: expected a name such as r01, found nothing"),
    "rack is a list": ("rack: [r01]\n", "f.yaml:1:7: rack: expected a name such as r01, found a list"),
    "node is a mapping": ("node: {a: b}\n", "f.yaml:1:7: node: expected a name such as n03, found keys"),
    "unknown platform, near": (
        "platform: gb300\n",
        "f.yaml:1:11: platform: 'gb300' is unknown; did you mean 'gb300-nvl72'?",
    ),
    "unknown platform": (
        "platform: zx81\n",
        "f.yaml:1:11: platform: 'zx81' is unknown; valid are auto, gb300-nvl72, hgx-h100",
    ),
    "listen without a host": (
        "listen: :10072\n",
        "f.yaml:1:9: listen: ':10072' is not an address;"
        " write host:port, such as 0.0.0.0:10072 for every interface",
    ),
    "listen without a port": (
        "listen: 10072\n",
        "f.yaml:1:9: listen: '10072' is not an address;"
        " write host:port, such as 0.0.0.0:10072 for every interface",
    ),
    "listen with a port out of range": (
        "listen: 127.0.0.1:65536\n",
        "f.yaml:1:9: listen: '127.0.0.1:65536': '65536' is not a port; 0 to 65535 is allowed",
    ),
    "listen with a port that is a word": (
        "listen: localhost:http\n",
        "f.yaml:1:9: listen: 'localhost:http': 'http' is not a port; 0 to 65535 is allowed",
    ),
    "listen with a bare IPv6 address": (
        "listen: ::1:10072\n",
        "f.yaml:1:9: listen: '::1:10072': an IPv6 address stands in brackets, such as [::]:10072",
    ),
    "listen with an IPv6 address and no port": (
        'listen: "[::1]"\n',
        "f.yaml:1:9: listen: '[::1]' is not an address; write [host]:port, such as [::]:10072",
    ),
    "listen with no IPv6 address in brackets": (
        'listen: "[127.0.0.1]:1"\n',
        "f.yaml:1:9: listen: '[127.0.0.1]:1': '127.0.0.1' is not an IPv6 address",
    ),
    "listen with no IPv4 address": (
        "listen: 300.1.1.1:1\n",
        "f.yaml:1:9: listen: '300.1.1.1:1': '300.1.1.1' is not an IPv4 address",
    ),
    "listen with no host name": (
        "listen: a b:1\n",
        "f.yaml:1:9: listen: 'a b:1': 'a b' is not a host name",
    ),
    "state_dir is relative": (
        "state_dir: var/lib\n",
        "f.yaml:1:12: state_dir: 'var/lib' is not an absolute path; write one such as /var/lib/rackwatt",
    ),
    "state_dir with a null byte": (
        'state_dir: "/var\\0"\n',
        "f.yaml:1:12: state_dir: '/var\\x00' is not a path: it holds a character that cannot be printed",
    ),
    "duration without a unit": (
        "sampling: {fast: 1}\n",
        "f.yaml:1:18: sampling.fast: '1' is not a duration;"
        " write a whole number and a unit, such as 500ms, 1s or 2m",
    ),
    "duration with a fraction": (
        "sampling: {fast: 0.5s}\n",
        "f.yaml:1:18: sampling.fast: '0.5s' is not a duration;"
        " write a whole number and a unit, such as 500ms, 1s or 2m",
    ),
    "fast below its bounds": (
        "sampling: {fast: 199ms}\n",
        "f.yaml:1:18: sampling.fast: 199ms is out of bounds; 200ms to 1m is allowed",
    ),
    "fast above its bounds": (
        "sampling: {fast: 61s}\n",
        "f.yaml:1:18: sampling.fast: 61s is out of bounds; 200ms to 1m is allowed",
    ),
    "links above its bounds": (
        "sampling: {links: 11m}\n",
        "f.yaml:1:19: sampling.links: 11m is out of bounds; 200ms to 10m is allowed",
    ),
    "slow above its bounds": (
        "sampling: {slow: 2h}\n",
        "f.yaml:1:18: sampling.slow: 2h is out of bounds; 200ms to 1h is allowed",
    ),
    "links faster than fast": (
        "sampling:\n  links: 1s\n  fast: 2s\n",
        "f.yaml:2:10: sampling.links: 1s is shorter than sampling.fast (2s); it must be at least as long",
    ),
    "slow faster than links": (
        "sampling: {slow: 5s}\n",
        "f.yaml:1:18: sampling.slow: 5s is shorter than sampling.links (10s); it must be at least as long",
    ),
    "sampling is a word": (
        "sampling: 1s\n",
        "f.yaml:1:11: sampling: expected keys (fast, links, slow, serving), found '1s'",
    ),
    "sampling with all keys commented out": (
        "sampling:\n#  fast: 1s\n",
        "f.yaml:1:10: sampling: expected keys (fast, links, slow, serving), found nothing",
    ),
    "unknown level": ("level: ful\n", "f.yaml:1:8: level: 'ful' is unknown; did you mean 'full'?"),
    "enabled in the words of YAML 1.1": (
        "prometheus: {enabled: yes}\n",
        "f.yaml:1:23: prometheus.enabled: 'yes' is neither true nor false",
    ),
    "unknown log format": (
        "log: {format: xml}\n",
        "f.yaml:1:15: log.format: 'xml' is unknown; valid are human, json",
    ),
    "unknown log level": (
        "log: {level: warn}\n",
        "f.yaml:1:14: log.level: 'warn' is unknown; did you mean 'warning'?",
    ),
    "repeated key": (
        "rack: r01\nnode: n01\nrack: r02\n",
        "f.yaml:3:1: the key 'rack' is repeated; it stands on line 1 already",
    ),
    "repeated key inside": (
        "sampling: {fast: 1s, fast: 1s}\n",
        "f.yaml:1:22: the key 'fast' is repeated; it stands on line 1 already",
    ),
    "anchor": ("rack: &r r01\n", "f.yaml:1:7: the anchor '&r' is not supported; write the value out"),
    "alias": ("rack: *r\n", "f.yaml:1:7: the alias '*r' is not supported; write the value out"),
    "tag": (
        "rack: !!python/name:os.system\n",
        "f.yaml:1:7: the tag '!!python/name:os.system' is not supported; remove it",
    ),
    "merge key": (
        "<<: {rack: r01}\n",
        "f.yaml:1:1: '<<': unknown key; " + "valid are rack, node, platform,"
        " listen, state_dir, sampling, level, checks, xids, prometheus, influxdb, serving, log",
    ),
    "second document": (
        "rack: r01\n---\nrack: r02\n",
        "f.yaml:2:1: a second document begins; only one is allowed",
    ),
    "no mapping at the top": ("- rack\n", "f.yaml:1:1: expected keys and values, such as 'rack: r01'"),
    "only a word": ("rack\n", "f.yaml:1:1: expected keys and values, such as 'rack: r01'"),
    "a key that is a list": ("? [a]\n: b\n", "f.yaml:1:3: a key must be a plain word"),
    "too deep": ("a: " + "[" * 17, "f.yaml:1:20: nested deeper than 16 levels"),
    "two values on a line": (
        "rack: r01 node: n03\n",
        "f.yaml:1:15: not valid YAML: mapping values are not allowed here",
    ),
    "tabs": (
        "sampling:\n\tfast: 1s\n",
        "f.yaml:2:1: not valid YAML: found character '\\t' that cannot start any token; indent with spaces",
    ),
    "unfinished": (
        "sampling: {fast: 1s\n",
        "f.yaml:2:1: not valid YAML: expected ',' or '}', but got '<stream end>'",
    ),
    "a character that YAML does not allow": (
        "rack: r01\nnode: a\x07b\n",
        "f.yaml:2:8: the character U+0007 is not allowed in YAML; remove it",
    ),
    "an escape beyond Unicode": (
        'rack: "\\UFFFFFFFF"\n',
        "f.yaml:1:10: not valid YAML: a number or an escape such as \\UFFFFFFFF is out of range",
    ),
}


@pytest.mark.parametrize(("text", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_exact_line(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_agent(text.encode(), "f.yaml", PLATFORMS)
    assert str(caught.value) == expected


def test_all_mistakes_are_named_at_once_in_the_order_of_the_file() -> None:
    text = b"log: {level: loud, format: json}\nnod: n01\nsampling: {fast: soon}\nlisten: 127.0.0.1:0\n"
    with pytest.raises(ConfigurationError) as caught:
        parse_agent(text, "f.yaml", PLATFORMS)
    assert [line.split(" ")[0:2] for line in str(caught.value).splitlines()] == [
        ["f.yaml:1:14:", "log.level:"],
        ["f.yaml:2:1:", "nod:"],
        ["f.yaml:3:18:", "sampling.fast:"],
    ]


def test_bytes_that_are_not_utf8_are_placed() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_agent("rack: é\n  ".encode() + b"\xff", "f.yaml", PLATFORMS)
    assert str(caught.value) == "f.yaml:2:3: byte 0xff is not UTF-8; save the file as UTF-8"


def test_a_file_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_agent(b"#" * (MAX_BYTES + 1), "f.yaml", PLATFORMS)
    assert str(caught.value) == "f.yaml: larger than 1024 KiB; is this the right file?"


def test_a_file_with_too_many_values_is_not_read_to_its_end() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_agent(b"rack: [" + b"a, " * 20_000 + b"]", "f.yaml", PLATFORMS)
    # 1 top mapping, 1 key, 1 list: the 19,998th item is the 20,001st value. Each takes 3 columns from 8 on.
    assert str(caught.value) == "f.yaml:1:59999: more than 20000 values; is this the right file?"


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_agent("/nonexistent/agent.yaml", {}, PLATFORMS)
    assert str(caught.value) == "/nonexistent/agent.yaml: there is no such file"


def test_a_directory_is_no_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("folder")
    with pytest.raises(ConfigurationError) as caught:
        load_agent(str(folder), {}, PLATFORMS)
    assert str(caught.value) == f"{folder}: cannot be read: Is a directory"


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_agent("a\0b", {}, PLATFORMS)
    assert str(caught.value) == "a\0b: cannot be read: embedded null byte"
