//go:build race

package endtoend_test

// raceEnabled reports whether the race detector is enabled.
const raceEnabled = true
