// Package telemetry makes the logger and the meter that the rest of klink is
// given. Nothing global is set or used.
//
// Instruments are made by each package from the Meter and named klink.<what>,
// with the unit as UCUM text ("By", "s", "{record}"). The Prometheus exporter
// turns klink.records into klink_records_total for a counter, klink.lag with unit
// "s" into klink_lag_seconds, and unit "By" into _bytes; a unit in braces adds
// nothing. Traces and OTLP export can be added here without touching a caller.
//
// Invariants:
//
//	T1  Every time series is exported, however many partitions there are: the
//	    SDK's cardinality limit, which folds all beyond 2000 into one, is off.
//	T2  Each Metrics has a registry of its own: two in one process share nothing.
//	T3  Every exported name begins with klink_.
package telemetry
