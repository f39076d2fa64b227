//go:build !linux && !noasm

package machine

// matrixUnit: only of Linux is it known how to ask for it.
func matrixUnit() bool { return false }
