//go:build !linux && !noasm

package machine

// hasMatrixUnit is false: the request for permission is specific to Linux.
func hasMatrixUnit() bool { return false }
