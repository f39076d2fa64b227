//go:build !amd64 || noasm

package machine

const instructions = Portable

var byteProducts [AVX512 + 1]bool

func matrixUnit() bool { return false }
