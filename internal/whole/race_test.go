//go:build race

package whole_test

// raceEnabled says that the race detector is built in.
const raceEnabled = true
