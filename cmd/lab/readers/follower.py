"""The one member of a group: follower.py BOOTSTRAP GROUP PERIOD_MS TOPIC..."""

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException

stopping = threading.Event()


def listen():
    sys.stdin.buffer.read()
    stopping.set()


def fail(kind, error):
    sys.stdout.write("@error %s %s\n" % (kind, str(error).replace("\n", " ")))
    sys.stdout.flush()
    sys.exit(1)


def note(messages):
    runs = []
    for message in messages:
        error = message.error()
        if error is not None:
            fail("reset" if error.code() == KafkaError._AUTO_OFFSET_RESET else "other", error)
        place, offset = (message.topic(), message.partition()), message.offset()
        if runs and runs[-1][0] == place and runs[-1][2] == offset:
            runs[-1][2] = offset + 1
        else:
            runs.append([place, offset, offset + 1])
    for (topic, number), first, following in runs:
        sys.stdout.write("@records %s %d %d %d\n" % (topic, number, first, following))
    # Whatever is committed has been told before.
    sys.stdout.flush()


# What a coordinator answers while it moves or reads its log. Unlike other clients
# librdkafka leaves it to its caller to commit once more.
PASSING = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR)


def passing(error):
    return error is not None and (error.retriable() or error.code() in PASSING)


def committed(consumer):
    """Commits the positions, and returns what was answered for each partition."""
    patience = time.monotonic() + 30
    while True:
        again = time.monotonic() < patience
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException as e:
            if e.args[0].code() == KafkaError._NO_OFFSET:  # nothing new
                return []
            if not (again and passing(e.args[0])):
                raise
        else:
            if not (again and any(passing(place.error) for place in done)):
                return done
        time.sleep(0.1)


def commit(consumer):
    for place in committed(consumer):
        if place.error is not None:
            fail("other", place.error)
        if place.offset >= 0:
            sys.stdout.write("@commit %s %d %d\n" % (place.topic, place.partition, place.offset))
    sys.stdout.flush()


def main():
    bootstrap, group, period = sys.argv[1], sys.argv[2], int(sys.argv[3]) / 1000
    threading.Thread(target=listen, daemon=True).start()
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed",
        "enable.auto.commit": False, "auto.offset.reset": "error", "check.crcs": True,
        "fetch.wait.max.ms": 100,
    })
    consumer.subscribe(sys.argv[4:])
    last = time.time() // period
    try:
        while not stopping.is_set():
            note(consumer.consume(1000, 0.05))
            now = time.time() // period
            if now != last:
                commit(consumer)
                last = now
        commit(consumer)
    except KafkaException as e:
        fail("other", e)
    consumer.close()
    sys.stdout.write("@end\n")
    sys.stdout.flush()


main()
