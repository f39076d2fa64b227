//go:build !race

package recurrent_test

// raceEnabled says that the race detector is built in.
const raceEnabled = false
