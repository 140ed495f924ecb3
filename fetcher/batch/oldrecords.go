package batch

import "iter"

// isOld reports whether an entry is of magic 0 or 1.
func isOld(entry []byte) bool {
	m := Magic(entry)
	return m == 0 || m == 1
}

// oldRecords is Records for an entry of magic 0 or 1.
func oldRecords(entry []byte, lim Limits) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		e, scratch, err := openOldEntry(entry, lim.maxUncompressed())
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer scratch.release()
		if e.inner == nil {
			r, err := e.record(e.wrapper)
			yield(r, err)
			return
		}
		for set := e.inner; len(set) > 0; {
			var m oldMessage
			m, set, err = cutOldMessage(set)
			var r Record
			if err == nil {
				r, err = e.record(m)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// record returns the record that the message m of this entry is, after checking
// its CRC (B4).
//
// Magic may differ between a wrapper and its messages, and what a message lacks
// it does not get from its wrapper (LegacyRecord): magic 0 has no timestamp, and
// magic 1 has its own unless the wrapper's is a LogAppendTime, which counts for
// all of its messages (KIP-32).
func (e *oldEntry) record(m oldMessage) (Record, error) {
	if e.inner != nil && m.codec() != CodecNone {
		return Record{}, malformed("a compressed message (%s) inside the message set at offset %d", m.codec(), e.wrapper.offset)
	}
	if err := m.checkCRC(); err != nil {
		return Record{}, err
	}
	r := Record{Offset: m.offset + e.shift, Timestamp: m.timestamp, Key: m.key, Value: m.value}
	if m.magic == 1 && e.wrapper.logAppendTime() {
		r.Timestamp = e.wrapper.timestamp
	}
	return r, nil
}
