//go:build !race

package sequence_test

// raceEnabled says that the race detector is built in.
const raceEnabled = false
