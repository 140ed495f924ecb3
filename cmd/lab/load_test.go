package lab_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
)

func TestALoadReportsWhatWasAcknowledged(t *testing.T) {
	src, _ := pair(t, 3)
	report := labtest.Produce(t, src, lab.LoadOptions{Topics: []string{"t"}, Total: 5000, LargeEvery: 10})
	var ends int64
	for p, end := range report.Ends {
		if hw := src.Cluster().PartitionInfo(p.Topic, p.Number).HighWatermark; hw != end {
			t.Errorf("%s ends at %d, reported %d", p, hw, end)
		}
		ends += end
	}
	if ends != report.Acked || report.AckedBytes == 0 || report.Elapsed == 0 {
		t.Errorf("report %+v", report)
	}
}

func TestALoadKeepsItsRateUntilStopped(t *testing.T) {
	src, _ := pair(t, 3)
	start := time.Now()
	l := labtest.StartLoad(t, src, lab.LoadOptions{Topics: []string{"t"}, RecordsPerSecond: 2000, MaxBatch: 20})
	await(t, "600 records", func() bool { return l.Report().Acked >= 600 })
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("600 records at 2000 a second came within %v", took)
	}
	report := l.Stop()
	if report.Failed > 0 || report.Acked < 600 {
		t.Errorf("report %+v", report)
	}
	<-l.Done()
}

func TestALoadIsIdempotentOnlyWhenAskedTo(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		src, _ := pair(t, 1)
		inits := 0
		src.Cluster().ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
			inits++
			return nil, nil, false
		})
		labtest.Produce(t, src, lab.LoadOptions{Topics: []string{"t"}, Total: 100, Idempotent: idempotent})
		if (inits > 0) != idempotent {
			t.Errorf("idempotent %t: %d producer ids were asked for", idempotent, inits)
		}
	}
}

func TestALoadNeedsItsTopicsAndCodecs(t *testing.T) {
	src, _ := pair(t, 1)
	for _, o := range []lab.LoadOptions{{Topics: []string{"none"}}, {Topics: []string{"t"}, Codecs: []string{"rar"}}} {
		if _, err := lab.StartLoad(within(t, 5*time.Second), src, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
