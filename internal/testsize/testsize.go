// Package testsize chooses how many cases tests draw: the fewest in go test -short, few in go test, all with
// GRAPHRUN_TESTS=all. Continuous integration uses -short under an emulator and under the race detector, where tests take
// 20 to 50 times as long. Test programs that import it collect garbage a quarter as often as others, which saves up to a
// third of their time and costs up to 200 MB of memory.
package testsize

import (
	"os"
	"runtime/debug"
	"testing"
)

func init() { debug.SetGCPercent(400) }

// All reports whether tests draw all of their cases: the environment variable GRAPHRUN_TESTS is "all".
func All() bool { return os.Getenv("GRAPHRUN_TESTS") == "all" }

// Short returns few in go test -short, and n otherwise.
func Short[N any](few, n N) N {
	if testing.Short() {
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

// Long skips a test in go test -short: it takes seconds, and nothing in it depends on the processor or on goroutines.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("go test without -short runs it")
	}
}
