package axes_test

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/tensor"
)

// Walks over the kept and reduced axes visit every element once, with its output. If inOrder is set, the position in
// the walk over the reduced axes is the logical index.
func TestSplitVisitsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 4).Draw(t, "shape")
		mask := rapid.SliceOfN(rapid.Bool(), len(shape), len(shape)).Draw(t, "mask")
		inOrder := rapid.Bool().Draw(t, "in order")
		m, out := tensor.New(tensor.Int32, shape...), tensor.New(tensor.Int64, shape...)
		for i, d := range rapid.Permutation(slices.Collect(rangeOf(len(shape)))).Draw(t, "order") {
			m.Strides[d] = []int{1, 4, 16, 64}[i]
		}
		kept, along := axes.Split(axes.Dims(m, out), mask, inOrder)
		type visit struct{ in, out, position int }
		want, got := map[visit]bool{}, map[visit]bool{}
		var walk func(d int, v visit)
		walk = func(d int, v visit) {
			if d == len(shape) {
				if !inOrder {
					v.position = 0
				}
				want[v] = true
				return
			}
			for k := range shape[d] {
				next := visit{v.in + 4*k*m.Strides[d], v.out + 8*k*out.Strides[d], v.position}
				if mask[d] {
					next.position = v.position*shape[d] + k
				}
				walk(d+1, next)
			}
		}
		walk(0, visit{})
		k := axes.Walker{Axes: kept, Index: make([]int, len(kept))}
		a := axes.Walker{Axes: along, Index: make([]int, len(along))}
		b := axes.Walker{Axes: along, Index: make([]int, len(along))}
		for i := range axes.Numel(kept) {
			k.Seek(i)
			b.Seek(0)
			for j := range axes.Numel(along) {
				a.Seek(j)
				assert.Equal(t, a.Offset, b.Offset)
				v := visit{k.Offset + a.Offset, k.OutOffsets[0] + a.OutOffsets[0], 0}
				if inOrder {
					v.position = j
				}
				got[v] = true
				b.Next()
			}
		}
		assert.Equal(t, want, got)
	})
}

func rangeOf(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// The sums of the columns of a transposed matrix. Each run of elements is converted to float64 as it is loaded.
func ExampleSplit() {
	x := tensor.Must(tensor.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 3, 2))
	m, _ := x.Transpose(0, 1)
	kept, along := axes.Split(axes.Dims(m), []bool{true, false}, false)
	load := axes.NewLoader(m.DType, m.DType, tensor.Float64)

	w := axes.Walker{Axes: kept, Index: make([]int, len(kept))}
	buf, tmp := make([]float64, axes.BlockLen), make([]byte, axes.BlockBytes)
	run := along[0]
	for i := range axes.Numel(kept) {
		w.Seek(i)
		p := load.Run(unsafe.Pointer(&buf[0]), unsafe.Pointer(&tmp[0]), unsafe.Add(x.Pointer(), w.Offset),
			run.InStride, run.Size)
		sum := 0.0
		for _, v := range unsafe.Slice((*float64)(p), run.Size) {
			sum += v
		}
		fmt.Println(sum)
	}
	// Output:
	// 3
	// 7
	// 11
}
