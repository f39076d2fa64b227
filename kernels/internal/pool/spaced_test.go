package pool_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestAdaptiveRows compares adaptive averages of rows, whose windows differ in size, with sums in order.
func TestAdaptiveRows(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 4))
	for _, sizes := range [][2]int{{100, 75}, {410, 100}, {7, 130}, {1500, 1100}, {64, 5}} {
		size, results := sizes[0], sizes[1]
		x := kerneltest.RandomTensor(r, tensor.New(tensor.Float32, 2, 3, size))
		op, c, err := kerneltest.NewReduceCall("adaptive_avg_pool1d", graph.Attrs{"output_size": results},
			[]*tensor.Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(op.Impls, func(impl graph.Impl) bool { return impl.Name == "planes" })
		outs, _ := runPool(t, &op.Impls[at], c, x)
		for i := range outs[0].Numel() {
			row, result := i/results, i%results
			from, end := result*size/results, ((result+1)*size+results-1)/results
			sum := 0.0
			for j := from; j < end; j++ {
				sum += x.At(row/3, row%3, j).Float()
			}
			if got, want := outs[0].At(row/3, row%3, result).Float(), float64(float32(sum/float64(end-from))); got != want {
				t.Errorf("%d to %d elements: result %d is %v, want %v", size, results, i, got, want)
			}
		}
	}
}

// TestSpacedMaxima compares maxima by planes over distant and over large windows with the definition, and bit for bit
// with loops in Go. Many elements are equal, zeros of both signs, or not finite.
func TestSpacedMaxima(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 3))
	dtypes := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Uint8, tensor.Int8,
		tensor.Int16, tensor.Int32, tensor.Int64}
	special := []float64{0, math.Copysign(0, -1), 1, math.NaN(), math.Inf(-1), math.Inf(-1), math.Inf(1)}
	for i := range testsize.Of(24, 300) {
		dims := 1 + i%3
		d := dtypes[r.IntN(len(dtypes))]
		shape := []int{1 + r.IntN(2), 1 + r.IntN(9)}
		var kernel, padding, stride, dilation []int
		for dim := range dims {
			taps, step := 1+r.IntN(4), 1+r.IntN(3)
			if dim == dims-1 {
				if taps, step = 1+r.IntN(9), 3+r.IntN(7); r.IntN(3) == 0 {
					taps, step = 41+r.IntN(10), 1+r.IntN(50)
				}
			}
			kernel, stride, padding = append(kernel, taps), append(stride, step), append(padding, r.IntN(taps/2+1))
			dilation = append(dilation, 1+r.IntN(2))
			shape = append(shape, (taps-1)*dilation[dim]+1+r.IntN(3*step+4))
		}
		if r.IntN(2) == 0 {
			padding[dims-1] = 0 // rows are joined
		}
		last := &shape[len(shape)-1]
		*last += 4 * stride[dims-1] // at least minResultsOfLargeWindows results
		switch r.IntN(4) {
		case 0:
			*last += 20 * stride[dims-1] // more than a vector of results
		case 1:
			*last += 6000 / dims // several blocks
		}
		a := graph.Attrs{"kernel_size": kernel, "stride": stride, "dilation": dilation, "ceil_mode": r.IntN(2) == 0}
		switch {
		case !d.IsFloat() || r.IntN(4) == 0:
			a["padding"] = append(padding, padding...) // ONNX's form, the only form for integers
		case r.IntN(2) == 0:
			a["padding"] = padding
		}
		x := kerneltest.RandomTensor(r, tensor.New(d, shape...))
		for j := range x.Numel() {
			if d.IsFloat() && r.IntN(4) == 0 {
				x.SetFlat(j, tensor.FloatScalar(special[r.IntN(len(special))]))
				if d == tensor.Float32 && r.IntN(8) == 0 { // a quiet NaN with any sign and payload
					const signAndPayload = 1<<31 | 1<<22 - 1
					bits := math.Float32bits(float32(math.NaN())) | r.Uint32()&signAndPayload
					binary.LittleEndian.PutUint32(x.Storage().Bytes()[j*4:], bits)
				}
			}
		}
		compiled := checkPool(t, fmt.Sprintf("max_pool%dd", dims), "planes", a, x)
		if loops.CodeAvailable() && compiled == 0 {
			t.Errorf("%v %v: no machine code was made", a, x.Meta)
		}
	}
}

// TestSpacedMaximaOfPaddedRows tests joined rows. The windows of the two rows of results begin at rows 0 and 2 of the
// operand, because row -1 is padding. Their phases differ, although rows 0 and 3 would have the same phases.
func TestSpacedMaximaOfPaddedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 5))
	for _, width := range []int{7, 8, 9, 100} {
		x := kerneltest.RandomTensor(r, tensor.New(tensor.Float32, 1, 4, width))
		checkPool(t, "max_pool2d", "planes", graph.Attrs{"kernel_size": 3, "stride": 3, "padding": []int{1, 0}}, x)
	}
}

// TestSpacedMaximaOfPadding tests that a unit of work is bounded if most windows are in the padding.
func TestSpacedMaximaOfPadding(t *testing.T) {
	newKernel := func(height, width int, a graph.Attrs) *graph.Kernel {
		x := tensor.Empty(tensor.New(tensor.Float32, 1, height, width))
		op, c, err := kerneltest.NewReduceCall("max_pool2d", a, []*tensor.Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(op.Impls, func(impl graph.Impl) bool { return impl.Name == "planes" })
		kernel, err := op.Impls[at].Lower(c)
		if err != nil {
			t.Fatal(err)
		}
		return kernel
	}
	wide := newKernel(64, 1024, graph.Attrs{"kernel_size": []int{16, 1024}, "stride": []int{1, 1024},
		"padding": []int{0, 0, 0, 1 << 20}})
	if wide.WorkerScratch > 2<<20 {
		t.Errorf("rows with padding: %d bytes of worker memory", wide.WorkerScratch)
	}
	high := newKernel(1, 192, graph.Attrs{"kernel_size": []int{1, 3}, "stride": []int{1, 3},
		"padding": []int{0, 0, 1 << 16, 0}})
	if chunks := high.Phases[0].Chunks; chunks < 16 {
		t.Errorf("%d rows of padding: %d chunks", 1<<16, chunks)
	}
}
