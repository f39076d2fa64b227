//go:build !linux && !noasm

package machine

// hasMatrixUnit is false: the request for permission to use the matrix unit (AMX) is specific to Linux.
func hasMatrixUnit() bool { return false }
