//go:build race

package iter_test

// raceEnabled says that the race detector is built in.
const raceEnabled = true
