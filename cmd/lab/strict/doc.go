// Package strict judges record batches as a real broker judges those of a
// producer, and more strictly than kfake does: kfake takes batches whose header
// claims records that are not there.
//
// The rules are those of Kafka's ProduceRequest.validateRecords, UnifiedLog.
// analyzeAndValidateRecords and LogValidator (4.3), and besides the few things
// that brokers take but that go wrong later: headers that the log cleaner dies
// of, and bits that change what consumers see.
//
// Promises:
//
//	T1  A batch that breaks a rule never reaches the log, and is recorded as a
//	    Violation, so that a test fails on it also when the sender copes.
//	T2  The decoder is written for this purpose alone, the simplest way. It shares
//	    no code with the packages that it judges.
package strict
