//go:build !race

package graph_test

// raceEnabled tells that times mean nothing.
const raceEnabled = false
