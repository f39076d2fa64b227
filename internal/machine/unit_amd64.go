//go:build !linux && !noasm

package machine

// matrixUnit is false: the request for permission is specific to Linux.
func matrixUnit() bool { return false }
