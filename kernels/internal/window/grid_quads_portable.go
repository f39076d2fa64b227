//go:build !(amd64 || arm64) || noasm

package window

import "unsafe"

// hasQuadCode is false: this build has no assembly.
const hasQuadCode = false

// sampleQuads is never called, because hasQuadCode is false. Other builds have it in assembly.
func sampleQuads(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int) {
}

// sampleBlocks is never called, like sampleQuads.
func sampleBlocks(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int) {
}
