package config

import (
	"math"
	"strconv"
	"strings"
)

// Bytes is a size in bytes. In the file it is a number, or a number with KiB,
// MiB or GiB; digits may be grouped with underscores.
type Bytes int64

// The units.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

var units = []struct {
	name string
	size Bytes
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}

const sizeAllowed = "a whole number of bytes, or one with KiB, MiB or GiB, e.g. 16MiB"

// ParseBytes reads a size; ok is false where s is none, or is negative or too
// large.
func ParseBytes(s string) (size Bytes, ok bool) {
	unit := Bytes(1)
	for _, u := range units {
		if digits, found := strings.CutSuffix(s, u.name); found {
			s, unit = strings.TrimSuffix(digits, " "), u.size
			break
		}
	}
	n, ok := parseInt(s)
	if !ok || n < 0 || n > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return Bytes(n) * unit, true
}

// String writes the size with the largest unit that divides it, in the form
// that ParseBytes reads.
func (b Bytes) String() string {
	for _, u := range units {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// parseInt reads a decimal number whose digits may be grouped by single
// underscores.
func parseInt(s string) (int64, bool) {
	if strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	return n, err == nil
}
