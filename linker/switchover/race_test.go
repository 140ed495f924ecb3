//go:build race

package switchover

const raceEnabled = true
