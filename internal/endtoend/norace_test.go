//go:build !race

package endtoend_test

// raceEnabled says that the race detector is built in.
const raceEnabled = false
