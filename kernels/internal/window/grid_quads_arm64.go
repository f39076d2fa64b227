//go:build arm64 && !noasm

package window

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// hasQuadCode reports whether the processor can run sampleQuads.
var hasQuadCode = machine.HostFeatures().Has(machine.NEON)

// sampleQuads stores the samples of a quad (quadChannels adjacent channels) at n positions. A sample is the sum of
// tapCount products of a pixel and a weight. The products are added in order, in float64. Pixels and samples are
// float32. A tap has the byte offset of a pixel, and a weight. taps has n lists of tapCount taps. out is the address of
// the first sample, and samples are outStep bytes apart. in is the address of the quad of the first pixel.
//
//go:noescape
func sampleQuads(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int)

// sampleBlocks is sampleQuads for blocks of maxPixelChannels adjacent channels. It prefetches the pixels of later taps,
// whose addresses the hardware cannot predict. For this it reads taps beyond the ends of the lists. Therefore the lists
// must be in a gridGroup (grid_kernel.go), which has room after them.
//
//go:noescape
func sampleBlocks(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int)
