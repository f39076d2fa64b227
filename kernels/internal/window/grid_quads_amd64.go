//go:build amd64 && !noasm

package window

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// hasQuadCode reports whether sampleQuadsVector can be used.
var hasQuadCode = machine.RunnableFeatures().Has(machine.AVX2)

// sampleQuadsVector is sampleQuads with AVX2.
//
//go:noescape
func sampleQuadsVector(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int)
