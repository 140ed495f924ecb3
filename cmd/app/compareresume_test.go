package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"klink/cmd/config"
	"klink/comparator"
)

// What Ctrl-C leaves is in the file, the next comparison is given it, and one that
// comes to its end leaves none.
func TestCompareResume(t *testing.T) {
	file := configFile(t, "", "east")
	left := filepath.Join(t.TempDir(), "left.json")
	var given *comparator.Saved
	compare := func(keep *comparator.Saved, failed int, err error, args ...string) result {
		parts := Parts{Compare: func(_ context.Context, _ *config.Config, req CompareRequest) (comparator.Result, error) {
			given = req.Saved("east")
			if keep != nil {
				req.Keep("east", *keep)
			}
			return comparator.Result{AsOf: asOf, Equal: failed == 0, Failed: failed, ResumedFrom: ptr(asOf)}, err
		}}
		return execute(t.Context(), parts, append([]string{"compare", "-c", file, "--resume", left}, args...)...)
	}
	there := func() bool { _, err := os.Stat(left); return err == nil }
	saved := comparator.Saved{AsOf: asOf, Partitions: []comparator.SavedPartition{{Topic: "orders", Whole: true, Result: comparator.PartitionResult{Partition: 3, To: 7}}}}

	r := compare(&saved, 0, context.Canceled)
	if r.code != 1 || given != nil || !there() || !strings.Contains(r.err, left+", and the same command goes on from there") {
		t.Errorf("%+v, %t", r, there())
	}
	r = compare(nil, 1, nil)
	if r.code != 1 || given == nil || len(given.Partitions) != 1 || given.Partitions[0].Result.To != 7 || !given.AsOf.Equal(asOf) || !there() {
		t.Errorf("%+v, given %+v", r, given)
	}
	if r := compare(nil, 0, nil, "--last", "1h"); r.code != 2 || !strings.Contains(r.err, "is of a comparison with --last 0s") {
		t.Errorf("%+v", r)
	}
	r = compare(nil, 0, nil)
	if r.code != 0 || there() || !strings.Contains(r.out, "went on from a comparison of "+asOf.Format(time.RFC3339)) {
		t.Errorf("%+v, %t", r, there())
	}
	for name, text := range map[string]string{"no JSON": "x", "another version": `{"_version":9}`} {
		if err := os.WriteFile(left, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := compare(nil, 0, nil); r.code != 2 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	left = filepath.Join(t.TempDir(), "none", "left.json") // goes away while it is compared
	if err := os.Mkdir(filepath.Dir(left), 0o700); err != nil {
		t.Fatal(err)
	}
	parts := Parts{Compare: func(_ context.Context, _ *config.Config, req CompareRequest) (comparator.Result, error) {
		err := os.Remove(filepath.Dir(left))
		req.Keep("east", saved)
		return comparator.Result{}, errors.Join(errors.New("away"), err)
	}}
	if r := execute(t.Context(), parts, "compare", "-c", file, "--resume", left); r.code != 1 || !strings.Contains(r.err, "what is done could not be kept") {
		t.Errorf("%+v", r)
	}
}

// A command is named once before what was wrong with how it was called.
func TestCommandIsNamedOnce(t *testing.T) {
	wrong := &UsageError{Command: "compare", What: "--resume: no such file"}
	for err, want := range map[error]string{
		inCommand("compare", wrong):                         wrong.Error(),
		inCommand("compare", errors.New("target: refused")): "compare: target: refused",
		inCommand("adopt", wrong):                           "adopt: " + wrong.Error(),
	} {
		if err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
