"""The sender, step by step: what each answer of a server costs, and what it never costs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporters.influxdb.backoff import Pace, Rate
from exporters.influxdb.failures import Failure
from exporters.influxdb.inspection import read_quarantine
from exporters.influxdb.sender import Sender, State
from exporters.influxdb.spool import Spool
from exporters.influxdb.target import WRITTEN, Answer, Outcome

POISON = b"poison"


class Clock:
    """A monotonic clock that tests move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Server:
    """Stands in for a server: answers as told, and keeps what it took."""

    def __init__(self, answer: Callable[[bytes], Answer] | None = None) -> None:
        self.answer = answer or (lambda _: WRITTEN)
        self.bodies: list[bytes] = []
        self.taken: list[bytes] = []

    def write(self, body: bytes) -> Answer:
        self.bodies.append(body)
        answer = self.answer(body)
        if answer.outcome is Outcome.WRITTEN:
            self.taken += body.splitlines()
        return answer

    def abort(self) -> None:
        """Nothing is ever under way."""


def answering(status: int, words: str = "", retry_after: float | None = None) -> Answer:
    outcomes = {
        400: Outcome.REFUSED,
        401: Outcome.HELD,
        404: Outcome.HELD,
        413: Outcome.TOO_LARGE,
        422: Outcome.REFUSED,
    }
    outcome = outcomes.get(status, Outcome.FAILED)
    return Answer(outcome, Failure.of_status(status), words or f"HTTP {status}", status, retry_after)


REFUSED = Answer(Outcome.UNREACHABLE, Failure.UNREACHABLE, "no connection: Connection refused")


def poisoned(status: int) -> Callable[[bytes], Answer]:
    return lambda body: answering(status, "unable to parse") if POISON in body else WRITTEN


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def spool(folder: Path) -> Iterator[Spool]:
    opened = Spool.open(folder, maximum_bytes=64 * 2**20, maximum_age_seconds=7 * 86_400.0)
    yield opened
    opened.close()


def line(number: int, name: bytes = b"gpu") -> bytes:
    return b"%s,gpu=0 power_watts=%d.0 %d" % (name, number, number)


def fill(spool: Spool, *payloads: bytes) -> None:
    for payload in payloads:
        spool.append(payload, points=payload.count(b"\n"), time_ns=1)
    spool.sync()


def one_record(*lines: bytes) -> bytes:
    return b"".join(each + b"\n" for each in lines)


def sender_of(spool: Spool, server: Server, draw: float = 0.5, pace: Pace | None = None) -> Sender:
    return Sender(spool, server, random=lambda: draw, pace=pace, wall_ns=lambda: 42)


def run(sender: Sender, steps: int = 2000) -> float:
    """Step until there is something to wait for; return for how long."""
    for _ in range(steps):
        wait = sender.step()
        if wait:
            return wait
    raise AssertionError(f"still busy after {steps} steps")


def test_what_waits_is_sent_byte_for_byte_oldest_first_and_forgotten(spool: Spool) -> None:
    payloads = [one_record(line(number), line(number, b"nvlink")) for number in range(10)]
    fill(spool, *payloads)
    server = Server()
    sender = sender_of(spool, server)
    assert run(sender) == 1.0
    assert b"".join(server.bodies) == b"".join(payloads)
    assert spool.status().points == 0
    assert sender.status.points_written == 20
    assert sender.status.last_success_ns == 42
    assert sender.status.state is State.IDLE


def test_a_batch_is_about_a_megabyte(spool: Spool) -> None:
    record = one_record(*(line(number) for number in range(10_000)))  # about 340 kB
    fill(spool, *[record] * 10)
    server = Server()
    run(sender_of(spool, server))
    assert len(server.bodies) == 5
    assert max(map(len, server.bodies)) <= 1_000_000


def test_what_was_acknowledged_is_not_sent_again_after_a_restart(folder: Path) -> None:
    for numbers in (range(3), range(3, 5)):
        spool = Spool.open(folder, maximum_bytes=2**22, maximum_age_seconds=1e6)
        fill(spool, *(one_record(line(number)) for number in numbers))
        server = Server()
        run(sender_of(spool, server))
        assert server.taken == [line(number) for number in numbers]
        spool.close()


@pytest.mark.parametrize("status", [400, 422])
def test_one_bad_line_costs_one_line(spool: Spool, folder: Path, status: int) -> None:
    # 25 requests (facts on reliability, §1): the whole, and both halves at each of 12 halvings.
    lines = [line(number) for number in range(5000)]
    lines[3210] = line(3210, POISON)
    fill(spool, one_record(*lines))
    server = Server(poisoned(status))
    sender = sender_of(spool, server)
    run(sender)
    assert sorted(server.taken) == sorted(each for each in lines if POISON not in each)
    assert len(server.bodies) in (25, 27)
    assert sender.status.points_written == 4999
    assert sender.status.rejected == {"refused": 1}
    assert spool.status().points == 0
    assert spool.status().quarantined_lines == 1
    quarantined = read_quarantine(folder).splitlines()
    assert quarantined[1:] == [line(3210, POISON).decode()]
    assert "unable to parse" in quarantined[0]


def test_many_bad_lines_cost_a_bounded_number_of_requests(spool: Spool) -> None:
    lines = [line(number, POISON if number % 7 == 0 else b"gpu") for number in range(5000)]
    server = Server(poisoned(400))
    sender = sender_of(spool, server)
    fill(spool, one_record(line(9999)))
    run(sender)
    fill(spool, one_record(*lines))
    run(sender)
    assert 100 < len(server.bodies) <= 2 * 128 + 3
    assert spool.status().points == 0
    assert sender.status.points_written + sender.status.rejected["refused"] == 5001
    assert len(server.taken) == sender.status.points_written


def test_a_server_that_refuses_everything_is_held_not_emptied_into_the_quarantine(spool: Spool) -> None:
    # InfluxDB 3 answers 400 to a database whose name cannot be.
    fill(spool, one_record(*(line(number) for number in range(100))))
    server = Server(lambda _: answering(400, "invalid database name"))
    sender = sender_of(spool, server)
    assert run(sender) == 60.0
    assert sender.status.state is State.HELD
    assert len(server.bodies) == 16
    assert spool.status().points == 100
    server.answer = lambda _: WRITTEN
    run(sender)
    assert (sender.status.points_written, sender.status.rejected) == (100, {})


def test_lines_that_are_refused_for_ten_minutes_hold_nothing_back(spool: Spool) -> None:
    fill(spool, one_record(line(1, POISON)))
    server = Server(poisoned(400))
    sender = sender_of(spool, server)
    waits = [run(sender) for _ in range(11)]
    assert waits == [60.0] * 10 + [1.0]
    assert sender.status.rejected == {"refused": 1}
    fill(spool, one_record(line(2)))
    run(sender)
    assert server.taken == [line(2)]


def test_a_partial_refusal_is_never_put_down_to_the_configuration(spool: Spool) -> None:
    # InfluxDB 2 answers 422 to points that are older than the bucket keeps.
    fill(spool, one_record(*(line(number) for number in range(10))))
    sender = sender_of(spool, Server(lambda _: answering(422, "points beyond retention policy")))
    assert run(sender) == 1.0
    assert sender.status.rejected == {"refused": 10}


@pytest.mark.parametrize("status", [401, 404])
def test_without_a_right_everything_is_held_and_the_server_asked_once_a_minute(
    spool: Spool, status: int
) -> None:
    fill(spool, *(one_record(line(number)) for number in range(3)))
    server = Server(lambda _: answering(status))
    sender = sender_of(spool, server)
    assert [sender.step() for _ in range(10)] == [60.0] * 10  # ten minutes
    assert len(server.bodies) == 10
    assert sender.status.state is State.HELD
    assert spool.status().points == 3
    server.answer = lambda _: WRITTEN
    run(sender)
    assert server.taken == [line(0), line(1), line(2)]
    assert sender.status.rejected == {}


def test_being_held_is_said_once_with_what_to_do(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    fill(spool, one_record(line(0)))
    server = Server(lambda _: answering(401, "HTTP 401: unauthorized access"))
    sender = sender_of(spool, server)
    with caplog.at_level("INFO", logger="rackwatt.influxdb"):
        for _ in range(5):
            sender.step()
        server.answer = lambda _: WRITTEN
        run(sender)
    assert caplog.messages == [
        "InfluxDB takes no points, which are kept on disk: HTTP 401: unauthorized access; "
        "see to `token_file`: the server does not know the token",
        "InfluxDB is written again",
    ]


def test_what_is_too_large_is_split_and_later_batches_are_smaller(spool: Spool) -> None:
    record = one_record(*(line(number) for number in range(3000)))
    fill(spool, *[record] * 8)
    server = Server(lambda body: answering(413) if len(body) > 300_000 else WRITTEN)
    sender = sender_of(spool, server)
    run(sender)
    assert len(server.taken) == 24_000
    assert sender.status.errors == {Failure.TOO_LARGE: 3}  # 816 kB, and each of its halves
    assert sender.status.rejected == {}


def test_a_single_line_that_is_too_large_is_set_aside(spool: Spool, folder: Path) -> None:
    fill(spool, one_record(line(1), line(2, POISON), line(3)))
    sender = sender_of(spool, Server(poisoned(413)))
    run(sender)
    assert sender.status.rejected == {"too_large": 1}
    assert "too_large" in read_quarantine(folder)


def test_waits_grow_to_a_minute_and_begin_anew_with_a_success(spool: Spool) -> None:
    fill(spool, one_record(line(1)), one_record(line(2)))
    server = Server(lambda _: REFUSED)
    sender = sender_of(spool, server, draw=1.0)
    assert [sender.step() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert sender.status.state is State.BACKING_OFF
    server.answer = lambda _: WRITTEN
    run(sender)
    fill(spool, one_record(line(3)))
    server.answer = lambda _: REFUSED
    assert sender.step() == 1.0
    assert spool.status().points == 1


def test_waits_are_drawn_between_nothing_and_the_bound(spool: Spool) -> None:
    fill(spool, one_record(line(1)))
    sender = sender_of(spool, Server(lambda _: REFUSED), draw=0.25)
    assert [sender.step() for _ in range(3)] == [0.25, 0.5, 1.0]


def test_retry_after_is_waited_for_whole_and_at_most_ten_minutes(spool: Spool) -> None:
    fill(spool, one_record(line(1)))
    server = Server(lambda _: answering(429, retry_after=60.0))
    sender = sender_of(spool, server, draw=0.5)
    assert sender.step() == 60.5
    server.answer = lambda _: answering(503, retry_after=86_400.0)
    assert sender.step() == 601.0


def test_a_batch_that_always_fails_while_others_succeed_is_set_aside(spool: Spool, folder: Path) -> None:
    # CONTRACTS §8: it never holds back newer data; after bounded tries it is set aside, kept, counted.
    fill(spool, one_record(line(1, POISON)))
    server = Server(poisoned(500))
    sender = sender_of(spool, server)
    first = sender.step()
    assert first == 0.5
    fill(spool, one_record(line(2)), one_record(line(3)))
    for _ in range(20):
        sender.step()
    assert server.taken == [line(2), line(3)]
    assert sender.status.rejected == {"server_error": 1}
    assert sender.status.points_written == 2
    assert spool.status().points == 0
    assert len([body for body in server.bodies if POISON in body]) <= 7
    assert line(1, POISON).decode() in read_quarantine(folder)


def test_a_server_that_fails_with_everything_costs_nothing_but_time(spool: Spool) -> None:
    fill(spool, one_record(line(0)))
    server = Server(lambda _: answering(500))
    sender = sender_of(spool, server)
    sender.step()
    fill(spool, *(one_record(line(number)) for number in range(1, 50)))
    for _ in range(200):
        assert sender.step() > 0
    assert sender.status.rejected == {}
    server.answer = lambda _: WRITTEN
    run(sender)
    assert sorted(server.taken) == sorted(line(number) for number in range(50))
    assert sender.status.points_written == 50


def test_a_server_that_stops_working_between_two_tries_condemns_no_batch(spool: Spool) -> None:
    fill(spool, one_record(line(0)))
    broken = Server(lambda _: answering(500))
    sender = sender_of(spool, broken)
    sender.step()
    fill(spool, one_record(line(1)))
    for _ in range(4):
        sender.step()
    broken.answer = lambda body: WRITTEN if body.startswith(line(1)) else answering(500)
    assert sender.step() == 0.0  # the one behind succeeds
    broken.answer = lambda _: REFUSED
    assert sender.step() > 0  # and then nobody is there
    broken.answer = lambda _: answering(500)
    for _ in range(20):
        sender.step()
    assert sender.status.rejected == {}
    broken.answer = lambda _: WRITTEN
    run(sender)
    assert (sender.status.points_written, spool.status().points) == (2, 0)


def test_what_the_spool_drops_meanwhile_is_not_sent(folder: Path) -> None:
    now = Clock()
    now.now = 1000.0
    spool = Spool.open(
        folder,
        maximum_bytes=2**22,
        maximum_age_seconds=60.0,
        wall_ns=lambda: int(now.now * 1e9),
        monotonic=now,
    )
    spool.append(one_record(line(1)), points=1, time_ns=int(now.now * 1e9))
    spool.sync()
    server = Server(lambda _: REFUSED)
    sender = sender_of(spool, server)
    sender.step()
    now.now += 1000.0
    spool.append(one_record(line(2)), points=1, time_ns=int(now.now * 1e9))
    spool.sync()
    assert spool.status().dropped_for_age.points == 1
    server.answer = lambda _: WRITTEN
    run(sender)
    assert server.taken == [line(2)]
    spool.close()


def test_a_backlog_is_sent_at_most_five_times_as_fast_as_it_grows(spool: Spool) -> None:
    clock = Clock()
    rate = Rate(clock)
    record = one_record(*(line(number) for number in range(20)))
    for _ in range(300):  # five minutes of one record a second
        clock.now += 1.0
        rate.add(len(record))
        fill(spool, record)
    server = Server()
    sender = sender_of(spool, server, pace=Pace(clock, rate.per_second))
    took = 0
    while spool.status().points:
        sent = len(server.taken)
        until = clock.now + 1.0
        while sender.step() == 0.0:
            pass
        clock.now = until
        rate.add(len(record))
        fill(spool, record)
        took += 1
        # Two seconds' worth may be saved up, and a batch may be begun with the last of it.
        assert len(server.taken) - sent <= 2 * 5 * 20 + 20
        if took == 60:
            assert len(server.taken) <= 60 * 5 * 20 * 1.1
            break
    assert took == 60 or spool.status().points <= 20
    while spool.status().points > 20 and took < 100:
        while sender.step() == 0.0:
            pass
        clock.now += 1.0
        rate.add(len(record))
        fill(spool, record)
        took += 1
    # 300 records at four more a second than come: 75 s.
    assert 70 <= took <= 85


def test_in_step_with_the_data_nothing_waits_for_its_turn(spool: Spool) -> None:
    clock = Clock()
    rate = Rate(clock)
    server = Server()
    sender = sender_of(spool, server, pace=Pace(clock, rate.per_second))
    for number in range(120):
        payload = one_record(*(line(number, b"gpu%d" % gpu) for gpu in range(40)))
        rate.add(len(payload))
        fill(spool, payload)
        while sender.step() == 0.0:
            pass
        clock.now += 1.0
        if number > 20:
            assert spool.status().points == 0


TIMED_OUT = Answer(Outcome.FAILED, Failure.TIMEOUT, "the server did not answer within the time limit")


def slow_above(size: int, answer: Answer) -> Callable[[bytes], Answer]:
    return lambda body: answer if len(body) > size else WRITTEN


def records_of(count: int, lines: int) -> list[bytes]:
    return [
        one_record(*(line(record * lines + number) for number in range(lines))) for record in range(count)
    ]


@pytest.mark.parametrize("answer", [TIMED_OUT, answering(504)], ids=["timeout", "504"])
def test_a_backlog_gets_through_a_server_that_is_too_slow_for_large_requests(
    spool: Spool, answer: Answer
) -> None:
    payloads = records_of(600, 100)  # some 2 MB
    fill(spool, *payloads)
    server = Server(slow_above(100_000, answer))
    sender = sender_of(spool, server)
    steps = 0
    while spool.status().points and steps < 1000:
        sender.step()
        steps += 1
    assert b"".join(each + b"\n" for each in server.taken) == b"".join(payloads)
    assert sender.status.rejected == {}
    # One larger request is tried for every eight that were taken, and not five times.
    failed = sum(sender.status.errors.values())
    assert failed <= 4 * 5 + len(server.bodies) / 8


@pytest.mark.parametrize("answer", [TIMED_OUT, answering(504), answering(500)], ids=["timeout", "504", "500"])
def test_a_small_batch_that_succeeds_condemns_no_large_one(spool: Spool, answer: Answer) -> None:
    large = one_record(*(line(number) for number in range(10_000)))  # one record of some 340 kB
    fill(spool, large)
    server = Server(slow_above(100_000, answer))
    sender = sender_of(spool, server)
    sender.step()
    fill(spool, one_record(line(-1)))
    for _ in range(200):
        sender.step()
    assert sender.status.rejected == {}
    assert sorted(server.taken) == sorted([*large.splitlines(), line(-1)])
    assert sender.status.points_written == 10_001
    assert spool.status().points == 0


def test_a_poisoned_line_in_a_backlog_costs_no_more_than_the_least_batch(spool: Spool) -> None:
    payloads = records_of(300, 100)
    payloads[150] = one_record(line(0, POISON))
    fill(spool, *payloads)
    server = Server(poisoned(500))
    sender = sender_of(spool, server)
    for _ in range(500):
        sender.step()
    assert spool.status().points == 0
    # 16 KiB of lines of at least 30 bytes each.
    assert 1 <= sender.status.rejected["server_error"] <= 16 * 1024 / 30
    assert sender.status.points_written + sender.status.rejected["server_error"] == 29_901


def test_a_poisoned_line_among_records_larger_than_the_least_batch_holds_nothing_back(spool: Spool) -> None:
    payloads = records_of(20, 1000)  # some 30 kB each
    payloads[3] = payloads[3].replace(b"gpu,gpu=0 power_watts=3500", POISON + b",gpu=0 power_watts=3500")
    fill(spool, *payloads)
    sender = sender_of(spool, Server(poisoned(500)))
    for _ in range(500):
        sender.step()
    assert spool.status().points == 0
    assert 1 <= sender.status.rejected["server_error"] <= 16 * 1024 / 30


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_sheds_load_condemns_no_batch(spool: Spool, status: int) -> None:
    draw = random.Random(3)  # noqa: S311 -- a test that repeats itself
    server = Server(lambda _: answering(status) if draw.random() < 0.5 else WRITTEN)
    sender = sender_of(spool, server)
    for number in range(500):
        fill(spool, one_record(line(2 * number)), one_record(line(2 * number + 1)))
        for _ in range(3):
            sender.step()
    while spool.status().points:
        sender.step()
    assert sender.status.rejected == {}
    assert sender.status.points_written == 1000


def test_a_refusal_of_what_stands_behind_proves_nothing_of_the_server(spool: Spool) -> None:
    fill(spool, one_record(line(0)))
    server = Server(lambda _: answering(500))
    sender = sender_of(spool, server)
    sender.step()
    fill(spool, one_record(line(1)))
    server.answer = lambda body: answering(400 if line(1) in body else 500)
    for _ in range(30):
        sender.step()
    assert sender.status.rejected == {}


def test_refusing_everything_is_paced_like_taking_it(spool: Spool) -> None:
    # InfluxDB 2 answers 422 to points that are older than the bucket keeps.
    clock = Clock()
    payloads = records_of(300, 100)
    fill(spool, *payloads)
    size = sum(map(len, payloads))
    sender = sender_of(spool, Server(lambda _: answering(422)), pace=Pace(clock, lambda: 1000.0))
    while spool.status().points:
        clock.now += sender.step()
        assert clock.now < 2 * size / 5000
    # Five times 1,000 bytes a second, but for what may be sent in one go.
    assert clock.now >= 0.9 * (size - 256 * 1024) / 5000
    assert sender.status.rejected == {"refused": 30_000}
