package gemm

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// TestPanels multiplies by packed panels of every width that a kernel set accepts: the sums have the same bits.
func TestPanels(t *testing.T) {
	eachKernel[float32](t, testPanels[float32])
	eachKernel[float64](t, testPanels[float64])
}

func testPanels[T float](t *testing.T, set *kernelSet) {
	r := rand.New(rand.NewPCG(4, 4))
	widths := []int{set.nr}
	if set.hasMachineCode() {
		widths = append(widths, set.constantPanel)
	}
	for _, d := range [][3]int{{1, 7, 3}, {7, 33, 9}, {14, 64, 20}, {50, 97, 65}, {128, 200, 31}, {30, 70, 1100}} {
		for _, bias := range []Bias{NoBias, BiasRows, BiasCols} {
			p := newProblem[T](r, d[0], d[1], d[2], rowMajor, rowMajor, rowMajor)
			p.spec.B.Source, p.spec.Bias, p.spec.BiasStride = Prepacked, bias, 1
			var want []T
			for _, p.spec.B.Panel = range widths {
				pl, err := newPlan(set, p.spec, sharedElems)
				if err != nil {
					t.Fatal(err)
				}
				run(pl, p.args(pl), false)
				if want == nil {
					want = append(want, p.c.buf...)
				}
				for i, v := range p.c.buf {
					if v != want[i] {
						t.Fatalf("%v, bias %d, panels of %d: element %d is %v, not %v", d, bias, p.spec.B.Panel, i, v, want[i])
					}
				}
			}
		}
	}
	p := newProblem[T](r, 3, 4, 5, rowMajor, rowMajor, rowMajor)
	p.spec.B = Operand{Source: Prepacked, Panel: 7}
	if _, err := newPlan(set, p.spec, sharedElems); err == nil {
		t.Error("panels of 7 columns are taken")
	}
}

// TestHalfPanels multiplies by packed panels of 16-bit floats: the results have the bits of a product by panels of the
// same numbers in float32.
func TestHalfPanels(t *testing.T) {
	eachKernel[float32](t, func(t *testing.T, set *kernelSet) {
		for _, half := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			t.Run(half.String(), func(t *testing.T) { testHalfPanels(t, set, half) })
		}
	})
}

func testHalfPanels(t *testing.T, set *kernelSet, half tensor.DType) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, d := range [][3]int{{1, 7, 3}, {1, 200, 1500}, {7, 33, 9}, {14, 64, 20}, {50, 97, 65}, {128, 200, 31},
		{30, 70, 1100}, {700, 130, 1300}} {
		for _, spec := range []Spec{{}, {Bias: BiasRows}, {Bias: BiasCols}, {Accumulate: true}} {
			p := newProblem[float32](r, d[0], d[1], d[2], rowMajor, rowMajor, rowMajor)
			p.spec.B.Source, p.spec.Bias, p.spec.BiasStride, p.spec.Accumulate = Prepacked, spec.Bias, 1, spec.Accumulate
			halves := make([]uint16, len(p.b.buf)) // round B to the dtype
			for i, x := range p.b.buf {
				halves[i] = uint16(math.Float32bits(x) >> 16)
				p.b.buf[i] = math.Float32frombits(uint32(halves[i]) << 16)
				if half == tensor.Float16 {
					halves[i] = uint16(tensor.HalfOf(x))
					p.b.buf[i] = tensor.Half(halves[i]).Float32()
				}
			}
			before := append([]float32(nil), p.c.buf...)
			product := func(args func(pl *Plan) *Args) []float32 {
				copy(p.c.buf, before)
				pl, err := newPlan(set, p.spec, sharedElems)
				if err != nil {
					t.Fatal(err)
				}
				run(pl, args(pl), false)
				return append([]float32(nil), p.c.buf...)
			}
			want := product(p.args)
			p.spec.B.Half = half
			if !set.hasMachineCode() {
				if _, err := newPlan(set, p.spec, sharedElems); err == nil {
					t.Fatal("kernels in Go take 16-bit floats")
				}
				continue
			}
			for _, p.spec.B.Panel = range []int{0, set.constantPanel} {
				got := product(func(pl *Plan) *Args {
					width := cmp.Or(p.spec.B.Panel, pl.PackCols())
					packed := make([]uint16, roundUp(d[1], width)*d[2]+1)
					offset := unsafe.Pointer(&halves[(uintptr(p.b.ptr())-uintptr(unsafe.Pointer(&p.b.buf[0])))/4])
					PackPanels(half, unsafe.Slice((*byte)(unsafe.Pointer(&packed[0])), 2*len(packed)), width, offset, d[2], d[1],
						p.b.rs, p.b.cs)
					args := p.args(pl)
					args.B = unsafe.Pointer(&packed[0])
					return args
				})
				if !slices.Equal(got, want) {
					t.Fatalf("%v, %+v, panels of %d: the bits differ from those of float32", d, spec, p.spec.B.Panel)
				}
			}
		}
	}
}
