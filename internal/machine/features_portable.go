//go:build (!amd64 && !arm64) || noasm

package machine

// detected has no features: this build has no machine code.
const detected = Portable

func matrixUnit() bool { return false }
