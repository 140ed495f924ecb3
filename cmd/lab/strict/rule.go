package strict

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Rule names what a batch has to keep.
type Rule string

// The rules, with the answer of a real broker to a batch that breaks them. Those
// marked "taken" are answered without an error by a real broker, and refused
// here with INVALID_RECORD, because of what they do later.
const (
	OneBatch       Rule = "exactly one batch per partition"              // INVALID_RECORD
	OncePerRequest Rule = "a partition is named once in a request"       // taken: the later batch silently wins
	Magic2         Rule = "magic 2"                                      // INVALID_RECORD
	Whole          Rule = "length and content agree"                     // CORRUPT_MESSAGE
	BaseZero       Rule = "base offset 0"                                // INVALID_RECORD
	Checksum       Rule = "CRC-32C over what follows it"                 // CORRUPT_MESSAGE
	Size           Rule = "no larger than max.message.bytes"             // MESSAGE_TOO_LARGE
	SegmentSize    Rule = "no larger than segment.bytes"                 // RECORD_LIST_TOO_LARGE
	Count          Rule = "at least one record"                          // INVALID_RECORD
	Contiguous     Rule = "last offset delta is count - 1"               // INVALID_RECORD
	Records        Rule = "records decode to count, nothing left over"   // INVALID_RECORD
	InnerOffsets   Rule = "offset deltas 0, 1, 2, ..."                   // UNKNOWN_SERVER_ERROR if compressed; taken if not
	Codec          Rule = "a known codec, allowed for this version"      // UNKNOWN_SERVER_ERROR, UNSUPPORTED_COMPRESSION_TYPE
	NoControl      Rule = "no control batch"                             // INVALID_RECORD
	NoTransaction  Rule = "no transactional batch without its id"        // TRANSACTIONAL_ID_AUTHORIZATION_FAILED
	NoAppendTime   Rule = "no LogAppendTime bit"                         // taken, bit cleared: timestamps change
	NoHorizon      Rule = "no delete-horizon bit"                        // taken and kept: base timestamp means something else
	Sequence       Rule = "a producer id has epoch and sequence"         // INVALID_RECORD for sequence < 0; else taken, and the cleaner dies
	MaxTimestamp   Rule = "max timestamp is that of a record"            // taken and corrected
	KeyNeeded      Rule = "keys on a compacted topic"                    // INVALID_RECORD
	TimestampRange Rule = "timestamps within message.timestamp.*.max.ms" // INVALID_TIMESTAMP
)

// Violation is one batch that broke a rule.
type Violation struct {
	Topic     string
	Partition int32
	Rule      Rule
	Code      int16  // the answer, as Kafka numbers errors
	Detail    string // the numbers
}

// Error makes a Violation an error.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s[%d]: %s: %s (%v)", v.Topic, v.Partition, v.Rule, v.Detail, kerr.ErrorForCode(v.Code))
}

// breach is a broken rule while topic and partition are not known yet.
func breach(rule Rule, code *kerr.Error, format string, args ...any) *Violation {
	return &Violation{Rule: rule, Code: code.Code, Detail: fmt.Sprintf(format, args...)}
}
