package app

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"
)

// What may stand behind flags of a kind.
const (
	allowedDuration = "a number with a unit, 0s or longer, e.g. 500ms, 5s, 10m or 24h"
	allowedSwitch   = "true or false, or the flag alone"
)

// valueProblem says what is wrong with the value of a flag and what is allowed, ""
// where nothing is. It stands before the cli library, which would only say "parse
// error". No flag of klink takes anything negative.
func valueProblem(f cli.Flag, text string) string {
	switch f.(type) {
	case *cli.DurationFlag:
		d, err := time.ParseDuration(text)
		return outOf(err == nil, d >= 0, problem{text, "no duration", allowedDuration})
	case *cli.IntFlag:
		return wholeNumber(text, math.MaxInt)
	case *cli.Int64Flag:
		return wholeNumber(text, math.MaxInt64)
	case *cli.IntSliceFlag: // partitions
		return wholeNumber(text, math.MaxInt32)
	case *cli.Uint64Flag:
		return wholeNumber(text, math.MaxUint64)
	case *cli.BoolFlag:
		_, err := strconv.ParseBool(text)
		return outOf(err == nil, true, problem{text, "neither true nor false", allowedSwitch})
	default:
		return ""
	}
}

// problem is a value, what it is instead of what is wanted, and what is allowed.
type problem struct{ text, is, allowed string }

// outOf says that a value cannot be read, or that it is out of its range.
func outOf(read, within bool, p problem) string {
	switch {
	case !read:
		return fmt.Sprintf("%q is %s; allowed: %s", p.text, p.is, p.allowed)
	case !within:
		return fmt.Sprintf("%q is out of range; allowed: %s", p.text, p.allowed)
	default:
		return ""
	}
}

// wholeNumber checks a number from 0 to most, in the forms that the cli library
// reads: it may be grouped with underscores, or be hexadecimal with 0x.
func wholeNumber(text string, most uint64) string {
	p := problem{text, "no whole number", "a whole number, 0 or more, e.g. 5"}
	if most <= math.MaxInt32 {
		p.allowed = fmt.Sprintf("a whole number from 0 to %d, e.g. 5", most)
	}
	if _, err := strconv.ParseInt(text, 0, 64); err == nil && text[0] == '-' {
		return outOf(true, false, p)
	}
	n, err := strconv.ParseUint(text, 0, 64)
	return outOf(err == nil, n <= most, p)
}

// isNumber tells whether a flag is one of those whose values are numbers, so that a
// word such as -5 behind it is meant as its value and not as another flag.
func isNumber(f cli.Flag) bool {
	switch f.(type) {
	case *cli.DurationFlag, *cli.IntFlag, *cli.Int64Flag, *cli.IntSliceFlag, *cli.Uint64Flag:
		return true
	default:
		return false
	}
}
