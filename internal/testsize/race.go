//go:build race

package testsize

// Race reports whether the race detector is built in.
const Race = true
