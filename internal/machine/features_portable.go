//go:build (!amd64 && !arm64) || noasm

package machine

// detected has no features: this build has no machine code.
const detected = Portable

// hasMatrixUnit is false: this build has no code for a matrix unit.
func hasMatrixUnit() bool { return false }
