//go:build !(amd64 || arm64) || noasm

package window

import "unsafe"

// hasQuadCode is false: this build has no assembly.
const hasQuadCode = false

// sampleQuads would sum the taps of four channels at a time. It is not called: see hasQuadCode.
func sampleQuads(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int) {
}

// sampleBlocks would sum the taps of 16 channels at a time. It is not called: see hasQuadCode.
func sampleBlocks(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int) {
}
