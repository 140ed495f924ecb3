"""Reads ranges of partitions: reader.py OUTPUT BOOTSTRAP ISOLATION [TOPIC PARTITION FROM TO]..."""

import hashlib
import struct
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition


def field(data):
    if data is None:
        return struct.pack(">i", -1)
    return struct.pack(">i", len(data)) + data


def line(message):
    known, timestamp = message.timestamp()
    key, value = message.key(), message.value()
    headers = message.headers() or []
    canonical = struct.pack(">q", timestamp if known else -1) + field(key) + field(value)
    canonical += struct.pack(">i", len(headers))
    for name, content in headers:
        canonical += field(name.encode()) + field(content)
    return "%s %d %d %s %s %s\n" % (
        message.topic(), message.partition(), message.offset(), hashlib.sha256(canonical).hexdigest(),
        "-" if key is None else hashlib.sha256(key).hexdigest(), "null" if value is None else "value")


def main():
    path, bootstrap, isolation = sys.argv[1:4]
    ranges = sys.argv[4:]
    failures = []
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "isolation.level": isolation, "group.id": "lab-reader",
        "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True,
        "check.crcs": True, "fetch.wait.max.ms": 100, "topic.metadata.refresh.interval.ms": -1,
        "error_cb": failures.append,
    })
    ends, assigned = {}, []
    for topic, number, start, end in zip(*[iter(ranges)] * 4):
        ends[topic, int(number)] = int(end)
        assigned.append(TopicPartition(topic, int(number), int(start)))
    consumer.assign(assigned)
    with open(path, "w", encoding="ascii") as out:
        while ends:
            for message in consumer.consume(1000, 0.1):
                place = (message.topic(), message.partition())
                if place not in ends:
                    continue
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                # The end of a partition is told with the offset that the client
                # would read next; for a range that ends before it, the first
                # record beyond says the same.
                if error is not None:
                    if message.offset() >= ends[place]:
                        del ends[place]
                    continue
                if message.offset() < ends[place]:
                    out.write(line(message))
                if message.offset() + 1 >= ends[place]:
                    del ends[place]
            for failure in failures:
                if failure.fatal() or failure.code() == KafkaError._ALL_BROKERS_DOWN:
                    raise KafkaException(failure)
        out.write("END\n")
    consumer.close()


main()
