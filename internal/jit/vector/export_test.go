//go:build linux || darwin

package vector

// RandomLoop is for tests that need packages which are built on this one.
var RandomLoop = randomLoop
