//go:build !(amd64 || arm64) || noasm

package window

import "unsafe"

// hasQuadCode is false: this build has no assembly.
const hasQuadCode = false

// sampleQuads is not called: see hasQuadCode.
func sampleQuads(int, unsafe.Pointer, int, unsafe.Pointer, *gridTap, int) {}

// sampleBlocks is not called: see hasQuadCode.
func sampleBlocks(int, unsafe.Pointer, int, unsafe.Pointer, *gridTap, int) {}
