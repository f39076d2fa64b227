//go:build !race

package jit

// raceEnabled says that the race detector is built in.
const raceEnabled = false
