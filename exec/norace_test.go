//go:build !race

package exec_test

// raceEnabled says that the race detector is built in.
const raceEnabled = false
