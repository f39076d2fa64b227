package fourier

import (
	"fmt"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// BenchmarkForward measures transforms of one line, complex and real.
func BenchmarkForward(b *testing.B) {
	for _, n := range []int{512, 1000, 1024} {
		for name, spec := range map[string]fourierSpec{"complex": {}, "real": {isFromReal: true, isOnesided: true}} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				spec.points = n
				forward, workLen := spec.lineTransform(tensor.Float32)
				x, scratch := make([]complex128, n), make([]complex128, workLen)
				x[1] = 1
				b.SetBytes(int64(complexBytes * n))
				for b.Loop() {
					clear(x)
					forward(x, scratch)
				}
			})
		}
	}
}
