// Package testsize chooses how many cases tests draw: few in go test ./..., all in make thorough.
package testsize

import "os"

// All reports whether tests draw all of their cases: the environment variable GRAPHRUN_TESTS is "all".
func All() bool { return os.Getenv("GRAPHRUN_TESTS") == "all" }

// Of returns few, or all if [All].
func Of[N any](few, all N) N {
	if All() {
		return all
	}
	return few
}
