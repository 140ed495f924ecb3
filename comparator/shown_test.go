package comparator

import (
	"testing"

	"klink/fetcher/batch"
)

func TestContrast(t *testing.T) {
	h := func(key, value string) batch.RecordHeader {
		return batch.RecordHeader{Key: []byte(key), Value: []byte(value)}
	}
	base := batch.Record{Timestamp: 5, Key: []byte("k"), Value: []byte("value"), Headers: []batch.RecordHeader{h("a", "1"), h("b", "2")}}
	for want, change := range map[string]func(*batch.Record){
		"":                                   func(*batch.Record) {},
		"timestamp 5, on the target 6":       func(r *batch.Record) { r.Timestamp = 6 },
		"key is 1 bytes, on the target null": func(r *batch.Record) { r.Key = nil },
		"value of 5 bytes differs from byte 2 on":                      func(r *batch.Record) { r.Value = []byte("vaLue") },
		"value of 5 bytes, on the target of 4, differs from byte 4 on": func(r *batch.Record) { r.Value = []byte("valu") },
		"header 1 of 2 differs":                                        func(r *batch.Record) { r.Headers = []batch.RecordHeader{h("b", "2"), h("a", "1")} },
		"2 headers, on the target 1":                                   func(r *batch.Record) { r.Headers = r.Headers[:1] },
	} {
		other := base
		change(&other)
		if got := contrast(base, other); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestText(t *testing.T) {
	long := make([]byte, 300)
	for i := range long {
		long[i] = 'x'
	}
	if text(nil) != nil || *text([]byte{}) != "" || *text([]byte("naïve")) != "naïve" || *text([]byte{0xff, 'a'}) != `\xffa` {
		t.Error("null, empty, printable and other bytes are not told apart")
	}
	if got := *text(long); got != string(long[:256])+"... (300 bytes)" {
		t.Errorf("%q", got)
	}
}

func TestBoundsAreJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		src, dst int64
		rule     startRule
		want     bool
	}{
		"equal":                         {5, 5, startRule{follows: true}, false},
		"the target starts later":       {5, 9, startRule{follows: true}, true},
		"and was begun later":           {5, 9, startRule{follows: true, later: true}, false},
		"the target was not trimmed":    {9, 5, startRule{follows: true, later: true}, true},
		"both delete by themselves":     {5, 9, startRule{}, false},
		"the source deletes on its own": {9, 5, startRule{}, false},
	} {
		if f, got := judgeStart(Bounds{Start: tc.src}, Bounds{Start: tc.dst}, tc.rule); got != tc.want || got && f.Offset != min(tc.src, tc.dst) {
			t.Errorf("%s: %t %+v", name, got, f)
		}
	}
	for name, tc := range map[string]struct {
		src, dst, later int64
		want            bool
	}{
		"equal":                              {9, 9, 9, false},
		"mirrored beyond the first look":     {9, 12, 12, false},
		"between the looks":                  {9, 10, 12, false},
		"a missing tail":                     {9, 8, 9, true},
		"more than the source has":           {9, 10, 9, true},
		"more than the source has had since": {9, 13, 12, true},
	} {
		if f, got := judgeEnd(tc.src, tc.dst, tc.later); got != tc.want || got && f.Records != 1 {
			t.Errorf("%s: %t %+v", name, got, f)
		}
	}
}
