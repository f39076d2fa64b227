// Package testsize chooses how many cases tests draw: few in go test ./..., all in make thorough. Test programs that
// import it collect garbage a quarter as often as others.
package testsize

import (
	"os"
	"runtime/debug"
)

// make test sets the same percentage. It saves up to a third of the time of tests, and costs up to 200 MB of memory.
func init() { debug.SetGCPercent(400) }

// All reports whether tests draw all of their cases: the environment variable GRAPHRUN_TESTS is "all".
func All() bool { return os.Getenv("GRAPHRUN_TESTS") == "all" }

// Emulated returns few under an emulator, where tests take 20 to 50 times as long, and n elsewhere: make arm64 sets
// GRAPHRUN_TESTS to "emulated".
func Emulated[N any](few, n N) N {
	if os.Getenv("GRAPHRUN_TESTS") == "emulated" {
		return few
	}
	return n
}

// Of returns few, or all if [All].
func Of[N any](few, all N) N {
	if All() {
		return all
	}
	return few
}
