//go:build !race

package switchover

const raceEnabled = false
