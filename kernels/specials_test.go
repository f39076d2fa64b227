//go:build linux || darwin

package kernels_test

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// specials is the number of special elements of a call; it is not a multiple of a vector's lanes.
const specials = 605

// TestSpecialNumbers compares the kernels of pointwise ops with their references on special numbers: infinities, NaN,
// zeros of both signs, and the least and greatest numbers of each dtype.
func TestSpecialNumbers(t *testing.T) {
	testsize.Long(t)
	ops, calls, drawn, step := map[string]bool{}, 0, 0, testsize.Of(4, 1)
	for _, op := range kernels.All() {
		if op.Kind != graph.FollowsOperands || op.Ref == nil {
			continue
		}
		for _, ex := range op.Examples {
			for _, d := range tensor.DTypes() {
				for _, metas := range withDTypes(ex.In, d) {
					if drawn++; drawn%step > 0 {
						continue
					}
					ran, err := specialCall(op, ex.Attrs, metas)
					if err != nil {
						t.Errorf("%s %v %v: %v", op.Name, ex.Attrs, d, err)
					}
					if ran {
						ops[op.Name] = true
						calls++
					}
				}
			}
		}
	}
	if len(ops) < 105 || calls < 3500/step {
		t.Errorf("only %d calls of %d ops were compared", calls, len(ops))
	}
}

// specialCall checks one call; it reports whether the op supports it.
func specialCall(op *graph.Op, attrs graph.Attrs, metas []tensor.Meta) (bool, error) {
	rng := rand.New(rand.NewPCG(5, uint64(len(metas))))
	in := make([]*tensor.Tensor, len(metas))
	for k, m := range metas {
		if m.DType == tensor.Invalid {
			continue
		}
		if m.Rank() > 0 {
			metas[k] = tensor.New(m.DType, specials)
		}
		some := jittest.RandomElements(rng, m.DType, metas[k].Numel())
		in[k] = tensor.Must(tensor.FromStorage(metas[k], tensor.StorageOf(some)))
	}
	c, err := kerneltest.CallOf(op, attrs, metas)
	if err != nil {
		return false, nil
	}
	if _, err := kerneltest.Infer(op, c); err != nil {
		return false, nil
	}
	want, err := op.Ref(c, in)
	if errors.Is(err, kit.ErrZeroDivision) {
		if _, err := kerneltest.RunCall(op, c, in); !errors.Is(err, kit.ErrZeroDivision) {
			return true, fmt.Errorf("a divisor of 0: %w", err)
		}
		withoutZeros(in[len(in)-1])
		want, err = op.Ref(c, in)
	}
	if err != nil {
		return true, fmt.Errorf("reference: %w", err)
	}
	got, err := kerneltest.RunCall(op, c, in)
	if err != nil {
		return true, err
	}
	for i := range got {
		if err := sameNumbers(op, got[i], want[i], in); err != nil {
			return true, err
		}
	}
	return true, nil
}

func withoutZeros(x *tensor.Tensor) {
	for i := range x.Numel() {
		if x.At(i).Complex() == 0 {
			x.Set(tensor.IntScalar(1), i)
		}
	}
}

// sameNumbers compares results element by element, including the signs of zeros; complex results are compared with the
// formula's.
func sameNumbers(op *graph.Op, got, want *tensor.Tensor, in []*tensor.Tensor) error {
	for i := range want.Numel() {
		g, w := element(got, i), element(want, i)
		if computesSingle(want.DType, in) {
			g, w = g.CopyTo(tensor.New(tensor.Complex64)), w.CopyTo(tensor.New(tensor.Complex64))
		}
		zeros := want.DType.IsFloat() && w.At().Float() == 0 && g.At().Float() == 0
		if zeros && math.Signbit(w.At().Float()) == math.Signbit(g.At().Float()) ||
			!zeros && kerneltest.CompareTensors(g, w) == nil || blurred(op, want.DType, in, i) ||
			cmplx.Abs(g.At().Complex()-w.At().Complex()) <= cancelled[op.Name] {
			continue
		}
		of := ""
		for _, x := range in {
			if x != nil {
				of += fmt.Sprintf(" %v %v", x.DType, element(x, i).At())
			}
		}
		return fmt.Errorf("of%s: the kernel gives %v, the reference %v (signs of zeros count)", of, g.At(), w.At())
	}
	return nil
}

// cancelled has the absolute errors of results whose formula cancels or overflows, in PyTorch too. TestAccuracy bounds
// these errors for each operand.
var cancelled = map[string]float64{"gelu": 1e-6, "sigmoid": 1e-38, "silu": 1e-20, "sinc": 1e-15,
	"special_chebyshev_polynomial_t": 1e-12, "special_chebyshev_polynomial_u": 1e-12,
	"special_chebyshev_polynomial_v": 1e-12, "special_chebyshev_polynomial_w": 1e-12,
	"special_shifted_chebyshev_polynomial_t": 1e-12, "special_shifted_chebyshev_polynomial_u": 1e-12,
	"special_shifted_chebyshev_polynomial_v": 1e-12, "special_shifted_chebyshev_polynomial_w": 1e-12}

// computesSingle reports whether a complex result of float64 may have been computed in float32: in an arm of a
// selection whose operands all have such dtypes.
func computesSingle(d tensor.DType, in []*tensor.Tensor) bool {
	return d == tensor.Complex128 && slices.ContainsFunc(in, func(x *tensor.Tensor) bool {
		return x != nil && (x.DType.IsReducedFloat() || x.DType == tensor.Float32 || x.DType == tensor.Complex64)
	})
}

// element returns element i of a vector, or that of a 0-dim tensor.
func element(x *tensor.Tensor, i int) *tensor.Tensor {
	if x.Rank() == 0 {
		return x
	}
	size := x.DType.Size()
	return tensor.Must(tensor.FromStorage(tensor.New(x.DType), tensor.StorageOf(
		unsafe.Slice((*byte)(unsafe.Add(x.Pointer(), i*size)), size))))
}

// blurred reports whether a complex power has an exponential so far from 1 that its angle depends on the last bits.
func blurred(op *graph.Op, d tensor.DType, in []*tensor.Tensor, i int) bool {
	if op.Name != "pow" || !d.IsComplex() {
		return false
	}
	x, y := element(in[0], i).At().Complex(), element(in[1], i).At().Complex()
	return !(cmplx.Abs(y*cmplx.Log(x)) < 50)
}

// TestProductsOfInfinities checks that kernels and references multiply real numbers without imaginary parts: with them,
// an infinity times 0i is NaN.
func TestProductsOfInfinities(t *testing.T) {
	inf := math.Inf(1)
	row := func(list ...float64) *tensor.Tensor { return tensor.Must(tensor.FromSlice(list, len(list))) }
	for _, c := range []struct {
		op    string
		attrs graph.Attrs
		in    []*tensor.Tensor
		want  []float64
	}{
		{"einsum", graph.Attrs{"equation": "i,i->i"}, []*tensor.Tensor{row(inf, -inf, 3), row(2, 0.5, -1)},
			[]float64{inf, -inf, -3}},
		{"einsum", graph.Attrs{"equation": "i,i,i->"}, []*tensor.Tensor{row(-1, inf), row(1, -2), row(4, 5)},
			[]float64{-inf}},
		{"cumprod", graph.Attrs{"dim": 0}, []*tensor.Tensor{row(2, inf, -3, 1)}, []float64{2, inf, -inf, -inf}},
		{"cumsum", graph.Attrs{"dim": 0}, []*tensor.Tensor{row(2, inf, -3, 1)}, []float64{2, inf, inf, inf}},
		{"prod", nil, []*tensor.Tensor{row(2, -inf, 3)}, []float64{-inf}},
	} {
		kerneltest.CheckKernel(t, c.op, c.attrs, c.in)
		op, call, err := kerneltest.NewCall(c.op, c.attrs, c.in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := op.Ref(call, c.in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tensor.ToSlice[float64](out[0]); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s %v: got %v, want %v (%v)", c.op, c.attrs, got, c.want, err)
		}
	}
}
