package batch

import (
	"testing"

	"pgregory.net/rapid"
)

func TestRecordsAgreeWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t, rapid.Int64Range(0, 1<<40).Draw(t, "base"), 30)
		shape := batchShape{codec: drawCodec.Draw(t, "codec")}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 1:
			shape.attributes, shape.maxTime = logAppendTimeBit, drawTimestamp.Draw(t, "append time")
		case 2:
			shape.attributes, shape.horizon = deleteHorizonBit, drawTimestamp.Draw(t, "horizon")
		case 3: // compacted
			var kept []Record
			for _, r := range records {
				if rapid.Bool().Draw(t, "keep") {
					kept = append(kept, r)
				}
			}
			records, shape.lastDelta = kept, int32(len(records)+2)
		}
		b := oracleEncode(t, records, shape)
		want, err := oracleDecode(b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(Records(b, Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		wantRecords(t, got, want)
	})
}
