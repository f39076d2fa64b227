//go:build !race

package jit

// raceEnabled reports whether the race detector is active.
const raceEnabled = false
