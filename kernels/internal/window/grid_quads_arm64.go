//go:build arm64 && !noasm

package window

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// hasQuadCode reports whether sampleQuadsVector can be used.
var hasQuadCode = machine.HostFeatures().Has(machine.NEON)

// sampleQuadsVector is sampleQuads with NEON.
//
//go:noescape
func sampleQuadsVector(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int)
