//go:build (!amd64 && !arm64) || noasm

package machine

const detected = Portable

func matrixUnit() bool { return false }
