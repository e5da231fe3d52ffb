"""Runs a foreign CQL client, the PyPI package scylla-driver, against a simulated cluster without special settings.

Owns the checks that only a client which shares no code with this project can make. It starts nothing: the contact
points and the shape of the cluster come as arguments, and the exit status is 0 only when every check passed.
"""

import argparse
import datetime
import decimal
import ipaddress
import sys
import threading
import time
import traceback
import uuid

from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest, OperationType, RateLimitReached
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from cassandra.util import Date, Duration, Time

CHECKS = []


def check(function):
    """Registers a check; they run in the order of this file, on one session."""
    CHECKS.append(function)
    return function


class World:
    """What the checks share: the arguments, the cluster object, the session and the keyspace's name."""

    def __init__(self, args):
        self.args = args
        self.keyspace = "peer_%s" % uuid.uuid4().hex[:10]
        self.cluster = connect(args)
        self.session = self.cluster.connect()


def connect(args):
    """Opens a cluster object; only the load-balancing policy is named, so that the client's own warning stays away."""
    profile = ExecutionProfile(load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy()), request_timeout=20)
    return Cluster(args.contact_points, port=args.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})


def wait_until(condition, what, seconds=10):
    """Polls a condition that background threads of the client make true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not within %d s: %s" % (seconds, what))
        time.sleep(0.02)


@check
def every_node_is_a_host_that_is_up(world):
    hosts = world.cluster.metadata.all_hosts()
    assert len(hosts) == world.args.nodes, hosts
    assert all(host.is_up for host in hosts), [(h.address, h.is_up) for h in hosts]
    assert len({host.host_id for host in hosts}) == world.args.nodes
    assert world.cluster.metadata.token_map is not None


@check
def every_node_has_a_connection_for_each_shard(world):
    if not world.session.cluster.is_shard_aware():
        raise AssertionError("the client does not see shards")

    def covered():
        stats = world.session.cluster.shard_aware_stats()
        return len(stats) == world.args.nodes and all(
            s["shards_count"] == world.args.shards and s["connected"] == world.args.shards for s in stats.values()
        )

    wait_until(covered, "a connection for each shard: %s" % world.session.cluster.shard_aware_stats(), 30)


@check
def a_keyspace_and_tables_are_made_and_read_back(world):
    run = world.session.execute
    run("CREATE KEYSPACE %s WITH replication = {'class': 'NetworkTopologyStrategy', '%s': %d}"
        % (world.keyspace, world.args.dc, min(3, world.args.nodes)))
    world.session.set_keyspace(world.keyspace)
    run("CREATE TYPE address (street text, zip int)")
    run("CREATE TABLE kv (pk bigint PRIMARY KEY, v text, data blob)")
    run("CREATE TABLE wide (pk int, ck int, v text, s text static, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC)")
    run("CREATE TABLE counts (pk int PRIMARY KEY, n counter)")
    run("""CREATE TABLE everything (pk int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e decimal, f double,
        g float, h inet, i smallint, j text, k time, l timestamp, m timeuuid, n tinyint, o uuid, p varint, q date,
        r duration, s list<int>, t set<text>, u map<text, bigint>, v tuple<int, text>, w frozen<address>,
        x list<frozen<list<int>>>)""")
    keyspace = world.cluster.metadata.keyspaces[world.keyspace]
    assert sorted(keyspace.tables) == ["counts", "everything", "kv", "wide"], sorted(keyspace.tables)
    wide = keyspace.tables["wide"]
    assert [c.name for c in wide.partition_key] == ["pk"]
    assert [(c.name, c.is_reversed) for c in wide.clustering_key] == [("ck", True)]
    assert wide.columns["s"].is_static
    assert keyspace.user_types["address"].field_names == ["street", "zip"]
    assert len(keyspace.tables["everything"].columns) == 25
    assert keyspace.tables["everything"].columns["x"].cql_type == "list<frozen<list<int>>>"


@check
def every_type_survives_a_prepared_round_trip(world):
    session = world.session
    session.cluster.register_user_type(world.keyspace, "address", Address)
    names = list("abcdefghijklmnopqrstuvwx")
    insert = session.prepare("INSERT INTO everything (pk, %s) VALUES (?%s)" % (", ".join(names), ", ?" * len(names)))
    select = session.prepare("SELECT %s FROM everything WHERE pk = ?" % ", ".join(names))
    values = [
        "ascii", -(2 ** 63), b"\x00\xff" * 40, True, decimal.Decimal("-123.4500"), 1.5e300, 0.25, "2001:db8::1",
        -32768, "t\u00e9xt \U0001f980", Time("23:59:59.999999999"), datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
        uuid.uuid1(), -128, uuid.uuid4(), -(2 ** 100), Date(-1), Duration(14, 3, 5000000001), [3, 1, 2], {"b", "a"},
        {"x": 1, "y": -1}, (7, None), Address("Main St", 12345), [[1], [2, 3]],
    ]
    session.execute(insert, [1] + values)
    row = session.execute(select, [1]).one()
    for name, want, got in zip(names, values, row):
        if name == "h":
            want, got = ipaddress.ip_address(want), ipaddress.ip_address(got)
        if name in "sx":
            want, got = [list(x) if isinstance(x, list) else x for x in want], [list(x) if hasattr(x, "__iter__") else x for x in got]
        if name == "t":
            got = set(got)
        if name == "u":
            got = dict(got)
        assert got == want, "column %s: wrote %r, read %r" % (name, want, got)
    session.execute(insert, [2] + [None] * len(names))
    row = session.execute(select, [2]).one()
    assert all(cell is None for cell in row), row


class Address:
    """The application's class for the user type."""

    def __init__(self, street, zip):
        self.street, self.zip = street, zip

    def __eq__(self, other):
        return (self.street, self.zip) == (other.street, other.zip)

    def __repr__(self):
        return "Address(%r, %r)" % (self.street, self.zip)


@check
def a_partition_is_read_in_pages_in_clustering_order(world):
    session = world.session
    insert = session.prepare("INSERT INTO wide (pk, ck, v) VALUES (?, ?, ?)")
    execute_concurrent_with_args(session, insert, [(1, i, "v%d" % i) for i in range(1000)], concurrency=50)
    statement = SimpleStatement("SELECT ck, v FROM wide WHERE pk = 1", fetch_size=77)
    result = session.execute(statement)
    assert result.has_more_pages
    rows = list(result)
    assert [row.ck for row in rows] == list(range(999, -1, -1))
    few = list(session.execute("SELECT ck FROM wide WHERE pk = 1 AND ck >= 10 AND ck < 20 ORDER BY ck ASC LIMIT 5"))
    assert [row.ck for row in few] == [10, 11, 12, 13, 14], few
    several = list(session.execute("SELECT ck FROM wide WHERE pk = 1 AND ck IN (3, 1, 2000)"))
    assert sorted(row.ck for row in several) == [1, 3], several


@check
def two_thousand_concurrent_writes_are_all_found_by_a_paged_scan(world):
    session = world.session
    insert = session.prepare("INSERT INTO kv (pk, v, data) VALUES (?, ?, ?)")
    results = execute_concurrent_with_args(session, insert, [(i, "row %d" % i, b"x" * (i % 50)) for i in range(2000)],
                                           concurrency=200)
    assert all(ok for ok, _ in results)
    found = sorted(row.pk for row in session.execute(SimpleStatement("SELECT pk, data FROM kv", fetch_size=300)))
    assert found == list(range(2000)), len(found)
    assert session.execute("SELECT COUNT(*) FROM kv").one()[0] == 2000


@check
def batches_apply_as_a_whole(world):
    session = world.session
    insert = session.prepare("INSERT INTO kv (pk, v) VALUES (?, ?)")
    batch = BatchStatement(batch_type=BatchType.LOGGED, consistency_level=ConsistencyLevel.QUORUM)
    batch.add(insert, (10001, "a"))
    batch.add(SimpleStatement("INSERT INTO kv (pk, v) VALUES (%s, %s)"), (10002, "b"))
    session.execute(batch)
    assert session.execute("SELECT v FROM kv WHERE pk = 10002").one().v == "b"
    add = session.prepare("UPDATE counts SET n = n + ? WHERE pk = ?")
    counters = BatchStatement(batch_type=BatchType.COUNTER)
    counters.add(add, (5, 1))
    counters.add(add, (-2, 1))
    session.execute(counters)
    assert session.execute("SELECT n FROM counts WHERE pk = 1").one().n == 3


@check
def conditional_statements_tell_whether_they_were_applied(world):
    session = world.session
    first = session.execute("INSERT INTO kv (pk, v) VALUES (20000, 'first') IF NOT EXISTS")
    assert first.was_applied
    second = session.execute("INSERT INTO kv (pk, v) VALUES (20000, 'second') IF NOT EXISTS")
    assert not second.was_applied and second.one().v == "first"
    update = session.prepare("UPDATE kv SET v = ? WHERE pk = ? IF v = ?")
    assert not session.execute(update, ("third", 20000, "wrong")).was_applied
    assert session.execute(update, ("third", 20000, "first")).was_applied
    assert session.execute("SELECT v FROM kv WHERE pk = 20000").one().v == "third"


@check
def timestamps_and_time_to_live_are_kept(world):
    session = world.session
    session.execute("INSERT INTO kv (pk, v) VALUES (30000, 'new') USING TIMESTAMP 2000 AND TTL 3600")
    session.execute("INSERT INTO kv (pk, v) VALUES (30000, 'old') USING TIMESTAMP 1000")
    row = session.execute("SELECT v, WRITETIME(v) AS w, TTL(v) AS t FROM kv WHERE pk = 30000").one()
    assert row.v == "new" and row.w == 2000 and 3500 < row.t <= 3600, row


@check
def a_prepared_select_of_all_columns_follows_an_alter(world):
    session = world.session
    select = session.prepare("SELECT * FROM kv WHERE pk = ?")
    assert session.execute(select, (1,)).one()._fields == ("pk", "data", "v")
    session.execute("ALTER TABLE kv ADD extra int")
    session.execute("UPDATE kv SET extra = 7 WHERE pk = 1")
    row = session.execute(select, (1,)).one()
    assert row._fields == ("pk", "data", "extra", "v"), row._fields
    assert row.extra == 7 and row.v == "row 1", row


@check
def errors_arrive_with_their_types(world):
    session = world.session
    expect(SyntaxException, lambda: session.execute("SELEC nothing"))
    expect(InvalidRequest, lambda: session.execute("SELECT * FROM no_such_table"))
    expect(InvalidRequest, lambda: session.execute("SELECT no_such_column FROM kv"))
    expect(AlreadyExists, lambda: session.execute("CREATE TABLE kv (pk int PRIMARY KEY)"))


@check
def a_partition_that_is_written_too_often_is_refused_by_name(world):
    session = world.session
    session.execute("CREATE TABLE limited (pk int PRIMARY KEY, v int)"
                    " WITH per_partition_rate_limit = {'max_writes_per_second': 1}")
    try:
        for i in range(1000):  # far more writes than seconds can pass
            session.execute("INSERT INTO limited (pk, v) VALUES (1, %d)" % i)
    except RateLimitReached as error:
        assert error.op_type == OperationType.Write, error
        return
    raise AssertionError("no write was refused")


@check
def a_traced_request_is_found_by_its_id(world):
    result = world.session.execute("SELECT v FROM kv WHERE pk = 1", trace=True)
    trace = result.get_query_trace()
    assert trace.request_type == "Execute CQL3 query", trace.request_type
    assert trace.duration is not None and len(trace.events) > 0


def expect(error, action):
    """Asserts that an action ends in this class of error."""
    try:
        action()
    except error:
        return
    raise AssertionError("expected %s" % error.__name__)


@check
def a_second_session_notices_a_schema_change(world):
    other = connect(world.args)
    try:
        other.connect(world.keyspace)
        world.session.execute("CREATE TABLE noticed (pk int PRIMARY KEY)")
        wait_until(lambda: "noticed" in other.metadata.keyspaces[world.keyspace].tables, "the table in the other session")
        world.session.execute("DROP TABLE noticed")
        wait_until(lambda: "noticed" not in other.metadata.keyspaces[world.keyspace].tables, "its end in the other session")
    finally:
        other.shutdown()


@check
def a_node_that_is_stopped_and_started_is_left_out_and_used_again(world):
    world.session.execute("CREATE TABLE outage (pk int PRIMARY KEY, v int)")
    insert = world.session.prepare("INSERT INTO outage (pk, v) VALUES (?, ?)")
    insert.is_idempotent = True
    last = sorted(world.args.contact_points)[-1]

    def host():
        return [h for h in world.cluster.metadata.all_hosts() if h.address == last][0]

    def coordinators():
        futures = [world.session.execute_async(insert, (key, key)) for key in range(200)]
        for future in futures:
            future.result()
        return {str(future.coordinator_host.address) for future in futures}

    command(world, "stop", world.args.nodes - 1)
    try:
        wait_until(lambda: not host().is_up, "the stopped node is down", 30)
        assert last not in coordinators()
    finally:
        command(world, "start", world.args.nodes - 1)
    wait_until(lambda: host().is_up, "the started node is up", 60)
    wait_until(lambda: last in coordinators(), "requests for the started node", 60)
    assert world.session.execute("SELECT COUNT(*) FROM outage").one()[0] == 200


def command(world, verb, node):
    """Tells the cluster to stop or start a node."""
    with open(world.args.commands, "a") as pipe:
        pipe.write("%s %d\n" % (verb, node))


@check
def a_truncated_table_is_empty_and_a_dropped_keyspace_is_gone(world):
    world.session.execute("TRUNCATE kv")
    assert world.session.execute("SELECT COUNT(*) FROM kv").one()[0] == 0
    world.session.execute("DROP KEYSPACE %s" % world.keyspace)
    wait_until(lambda: world.keyspace not in world.cluster.metadata.keyspaces, "the keyspace's end")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contact_points", nargs="+", help="addresses without ports")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--dc", default="datacenter1")
    parser.add_argument("--commands", required=True, help="the pipe that the cluster reads commands from")
    parser.add_argument("--deadline", type=int, default=240, help="seconds after which the program gives up")
    args = parser.parse_args()
    watchdog = threading.Timer(args.deadline, lambda: (print("deadline passed", flush=True), __import__("os")._exit(3)))
    watchdog.daemon = True
    watchdog.start()
    world = World(args)
    failed = 0
    for function in CHECKS:
        try:
            function(world)
            print("ok      %s" % function.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAILED  %s" % function.__name__, flush=True)
            traceback.print_exc()
    world.cluster.shutdown()
    print("%d passed, %d failed" % (len(CHECKS) - failed, failed), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
