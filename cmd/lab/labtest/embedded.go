package labtest

import (
	"testing"

	"klink/cmd/lab"
)

// StartEmbedded starts an embedded cluster that ends with the test. The test
// fails if any batch that was produced broke a rule of package strict, unless
// the test has allowed that rule.
func StartEmbedded(tb testing.TB, opts lab.EmbeddedOptions) *lab.Embedded {
	tb.Helper()
	e, err := lab.StartEmbedded(tb.Context(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for _, v := range e.Violations() {
			tb.Errorf("a real broker would not take this batch: %v", v)
		}
		if err := e.Close(); err != nil {
			tb.Errorf("close the embedded cluster: %v", err)
		}
	})
	return e
}
