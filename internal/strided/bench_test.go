package strided

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// permuted returns the axes of a copy of row-major elements into another order of dimensions: dimension i of
// the result, which is row-major too, is dimension order[i] of the operand.
func permuted(size int, shape []int, order ...int) []Axis {
	axes := make([]Axis, len(shape))
	step := size
	for d := len(shape) - 1; d >= 0; d-- {
		axes[d].N, axes[d].Src = shape[d], step
		step *= shape[d]
	}
	step = size
	for i := len(order) - 1; i >= 0; i-- {
		axes[order[i]].Dst = step
		step *= shape[order[i]]
	}
	return axes
}

var benchmarks = []struct {
	name string
	size int
	axes []Axis
}{
	{"Transpose4096", 4, permuted(4, []int{4096, 4096}, 1, 0)},
	{"Permute201of256", 4, permuted(4, []int{256, 256, 256}, 2, 0, 1)},
	{"NHWC32x64x56x56", 4, permuted(4, []int{32, 64, 56 * 56}, 0, 2, 1)},
	{"NCHW32x64x56x56", 4, permuted(4, []int{32, 56 * 56, 64}, 0, 2, 1)},
	{"NHWC8x512x14x14", 4, permuted(4, []int{8, 512, 14 * 14}, 0, 2, 1)},
	{"NCHW8x512x14x14", 4, permuted(4, []int{8, 14 * 14, 512}, 0, 2, 1)},
	{"NHWC8x512x7x7", 4, permuted(4, []int{8, 512, 7 * 7}, 0, 2, 1)},
	{"NCHW8x512x7x7", 4, permuted(4, []int{8, 7 * 7, 512}, 0, 2, 1)},
	{"NHWC1x3x224x224", 4, permuted(4, []int{1, 3, 224 * 224}, 0, 2, 1)},
	{"NCHW1x3x224x224", 4, permuted(4, []int{1, 224 * 224, 3}, 0, 2, 1)},
	{"NHWC1x4x224x224", 4, permuted(4, []int{1, 4, 224 * 224}, 0, 2, 1)},
	{"NCHW1x4x224x224", 4, permuted(4, []int{1, 224 * 224, 4}, 0, 2, 1)},
	{"Transpose512", 4, permuted(4, []int{512, 512}, 1, 0)},
	{"Transpose4095x4097", 4, permuted(4, []int{4095, 4097}, 1, 0)},
	{"Permute210of256", 4, permuted(4, []int{256, 256, 256}, 2, 1, 0)},
	{"Heads512x16x64", 4, permuted(4, []int{8, 512, 16, 64}, 0, 2, 1, 3)},
	{"Dense4096", 4, []Axis{{4096 * 4096, 4, 4}}},
	{"Transpose4096of1", 1, permuted(1, []int{4096, 4096}, 1, 0)},
	{"Transpose4096of2", 2, permuted(2, []int{4096, 4096}, 1, 0)},
	{"Transpose4096of8", 8, permuted(8, []int{4096, 4096}, 1, 0)},
	{"Transpose2048of16", 16, permuted(16, []int{2048, 2048}, 1, 0)},
}

// BenchmarkCopies copies between dimension orders with one and two workers. It reports the minimum time of a copy in
// milliseconds, the bytes read and written per nanosecond, and their ratio to those of the builtin copy of the same
// size, which alternates with it. Minimum times are disturbed least by other processes.
func BenchmarkCopies(b *testing.B) {
	for _, c := range benchmarks {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/T=%d", c.name, workers), func(b *testing.B) {
				n := c.size
				for _, x := range c.axes {
					n *= x.N
				}
				dst, src := aligned(n, 0), aligned(n, 0)
				for i := range n {
					dst[i], src[i] = 1, byte(i)
				}
				p := New(MoverOf(c.size), c.axes)
				run := func() { shared(p, dst, src, workers) }
				ours, plain := best(b, run), time.Duration(0)
				if workers == 1 {
					plain = best(b, func() { copy(dst, src) })
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(ours)/1e6, "ms")
				b.ReportMetric(2*float64(n)/float64(ours), "GB/s")
				if plain > 0 {
					b.ReportMetric(float64(plain)/float64(ours), "of-copy")
				}
			})
		}
	}
}

// best returns the minimum time of many calls.
func best(b *testing.B, f func()) time.Duration {
	var times []time.Duration
	for begin := time.Now(); len(times) < 5 || time.Since(begin) < 300*time.Millisecond; {
		at := time.Now()
		f()
		times = append(times, time.Since(at))
	}
	return slices.Min(times)
}

// shared copies with several workers, which take chunks of tiles.
func shared(p *Copy, dst, src []byte, workers int) {
	each := max(1, 2*maxTileElems/p.MaxTileElems())
	var next atomic.Int64
	work := func() {
		room := make([]uint64, p.ScratchBytes()/8+1)
		mem := unsafe.Slice((*byte)(unsafe.Pointer(&room[0])), p.ScratchBytes())
		for {
			t := int(next.Add(int64(each))) - each
			if t >= p.Tiles() {
				return
			}
			p.Run(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), mem, t, min(t+each, p.Tiles()))
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// aligned returns n bytes that begin off bytes after a multiple of 64.
func aligned(n, off int) []byte {
	b := make([]byte, n+64+off)
	at := int(-uintptr(unsafe.Pointer(&b[0]))&63) + off
	return b[at : at+n : at+n]
}
