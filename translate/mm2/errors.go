package mm2

import "errors"

var (
	// ErrNull: a key or a value is missing. Kafka's readers fail on it as a whole
	// (NullPointerException).
	ErrNull = errors.New("no key or no value")
	// ErrCorrupt: the bytes are no such record. Kafka's readers skip it
	// (SchemaException).
	ErrCorrupt = errors.New("not a record of MirrorMaker 2")
	// ErrVersion: the record is of another version than 0, which Kafka's readers
	// refuse from 4.4 on (KAFKA-20659).
	ErrVersion = errors.New("a record of another version")
	// ErrForeign: the key of a Connect offset belongs to something else than the
	// source connector.
	ErrForeign = errors.New("the offset of another connector")
	// ErrValue: what was to be encoded would break a reader.
	ErrValue = errors.New("cannot be told in MirrorMaker 2's records")
)
