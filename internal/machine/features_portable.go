//go:build !amd64 || noasm

package machine

const host = Portable

func matrixUnit() bool { return false }
