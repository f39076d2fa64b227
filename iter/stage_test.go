package iter_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// TestTurned adds an operand that is faster across rows than along them, of the dtype of the others or converted, in
// sizes that fit pieces and do not, task by task; the largest results are written past the caches.
func TestTurned(t *testing.T) {
	testsize.Long(t)
	f := tensor.Float32
	for _, c := range []struct {
		rows, cols int
		d          tensor.DType
	}{
		{2048, 2048, f}, {2050, 2051, f}, {300, 411, f}, {64, 2048, f}, {17, 3000, f}, {3000, 17, f},
		{300, 411, tensor.Int32}, {300, 411, tensor.Int16}, {300, 411, tensor.Uint8}, {257, 1029, tensor.Int64},
		{300, 411, tensor.BFloat16},
	} {
		t.Run(fmt.Sprintf("%d,%d,%v", c.rows, c.cols, c.d), func(t *testing.T) {
			x := tensor.Empty(tensor.New(f, c.rows, c.cols))
			y := tensor.Empty(tensor.Meta{DType: c.d, Shape: []int{c.rows, c.cols}, Strides: []int{1, c.rows}})
			out := tensor.Empty(tensor.New(f, c.rows, c.cols))
			n := c.rows * c.cols
			xs := unsafe.Slice((*float32)(x.Pointer()), n)
			raw := tensor.Empty(tensor.New(f, n))
			ys := unsafe.Slice((*float32)(raw.Pointer()), n)
			for i := range n {
				xs[i], ys[i] = float32(i%8191), float32(i*7%127)
			}
			tensor.Converter(c.d, f)(y.Pointer(), raw.Pointer(), c.d.Size(), 4, n)
			it, err := iter.Binary(iter.OperandOfMeta(out.Meta), iter.OperandOfMeta(x.Meta), iter.OperandOfMeta(y.Meta)).Build()
			if err != nil {
				t.Fatal(err)
			}
			p, err := it.Prepare(iter.Map2(func(a, b float32) float32 { return a - b }))
			if err != nil {
				t.Fatal(err)
			}
			var cursor iter.Cursor
			for i := range it.Chunks(0) {
				ptrs := []unsafe.Pointer{out.Pointer(), x.Pointer(), y.Pointer()}
				if err := p.RunRange(&cursor, ptrs, it.Chunk(i, 0)); err != nil {
					t.Fatal(err)
				}
			}
			for i, got := range unsafe.Slice((*float32)(out.Pointer()), n) {
				if want := xs[i] - ys[i%c.cols*c.rows+i/c.cols]; got != want {
					t.Fatalf("element %d of %d by %d: %v, want %v", i, c.rows, c.cols, got, want)
				}
			}
		})
	}
}

// Tasks of a turned operand are whole panels of rows, as long as there are several.
func TestTurnedTasks(t *testing.T) {
	for _, c := range []struct{ rows, cols, tasks int }{
		{4096, 4096, 64}, {1024, 1024, 16}, {4096, 64, 8}, {4, 1 << 20, 128}, {16, 16, 1},
	} {
		transposed := tensor.Meta{DType: tensor.Float32, Shape: []int{c.rows, c.cols}, Strides: []int{1, c.rows}}
		x := tensor.New(tensor.Float32, c.rows, c.cols)
		it, err := iter.Binary(iter.OperandOfMeta(x), iter.OperandOfMeta(x), iter.OperandOfMeta(transposed)).Build()
		if err != nil {
			t.Fatal(err)
		}
		if got := it.Chunks(0); got != c.tasks {
			t.Errorf("%d by %d: %d tasks, want %d", c.rows, c.cols, got, c.tasks)
		}
	}
}
