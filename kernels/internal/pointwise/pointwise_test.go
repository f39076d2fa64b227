package pointwise_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// TestZeroDivision checks that integer division by 0 fails in the run, not before.
func TestZeroDivision(t *testing.T) {
	for _, name := range []string{"floor_divide", "remainder", "fmod", "div"} {
		attrs := graph.Attrs{}
		if name == "div" {
			attrs["rounding_mode"] = "trunc"
		}
		op, m := kernels.Lookup(name), tensor.New(tensor.Int32, 3)
		c, err := kerneltest.CallOf(op, attrs, []tensor.Meta{m, m})
		if err != nil {
			t.Fatal(err)
		}
		one, zero := tensor.Empty(m), tensor.Empty(m)
		one.SetFlat(1, tensor.IntScalar(1))
		if _, err := kerneltest.RunCall(op, c, []*tensor.Tensor{one, zero}); !errors.Is(err, kit.ErrZeroDivision) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestShiftWidth checks shifts by negative counts and by the width or more: PyTorch 1.13 uses the lowest bits of the
// count.
func TestShiftWidth(t *testing.T) {
	a := tensor.Must(tensor.FromSlice([]int32{1, 1, 1, -5}, 4))
	b := tensor.Must(tensor.FromSlice([]int32{40, -1, 31, 32}, 4))
	for name, want := range map[string][]int32{"bitwise_left_shift": {256, -1 << 31, -1 << 31, -5},
		"bitwise_right_shift": {0, 0, 0, -5}} {
		op := kernels.Lookup(name)
		c, _ := kerneltest.CallOf(op, nil, []tensor.Meta{a.Meta, b.Meta})
		out, err := kerneltest.RunCall(op, c, []*tensor.Tensor{a, b})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := tensor.ToSlice[int32](out[0]); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestRunAllocates checks that runs with an omitted operand in the middle, and with strided operands, do not allocate
// after the first one.
func TestRunAllocates(t *testing.T) {
	x := tensor.Meta{DType: tensor.Float64, Shape: []int{20, 30}, Strides: []int{1, 20}}
	for _, call := range []struct {
		op string
		in []tensor.Meta
	}{{"clamp", []tensor.Meta{x, {}, tensor.New(tensor.Float32, 30)}},
		{"mul", []tensor.Meta{x, tensor.New(tensor.Float32, 30)}}, {"rsub", []tensor.Meta{x, x}}} {
		op := kernels.Lookup(call.op)
		c, err := kerneltest.CallOf(op, nil, call.in)
		if err != nil {
			t.Fatal(err)
		}
		in := make([]*tensor.Tensor, len(call.in))
		for i, m := range call.in {
			if m.DType != tensor.Invalid {
				in[i] = tensor.Empty(m)
			}
		}
		if n, err := allocations(op, c, in); err != nil || n != 0 {
			t.Errorf("%s: %v allocations, error %v", call.op, n, err)
		}
	}
}

func allocations(op *graph.Op, c *graph.Call, in []*tensor.Tensor) (float64, error) {
	if _, err := kerneltest.Infer(op, c); err != nil {
		return 0, err
	}
	k, err := op.Compile(c)
	if err != nil {
		return 0, err
	}
	m := kerneltest.MemOf(k, c, in, []*tensor.Tensor{tensor.Empty(c.Out[0])})
	return testing.AllocsPerRun(10, func() {
		if e := k.Phases[0].Run(m, 0); e != nil {
			err = e
		}
	}), err
}

// TestRoundedSteps checks 16-bit floats for which PyTorch rounds an intermediate result: quotients just below 3, and a
// number between 16 and 17 tenths.
func TestRoundedSteps(t *testing.T) {
	for _, c := range []struct {
		op    string
		attrs graph.Attrs
		in    []float64
		want  float64
	}{
		{"div", graph.Attrs{"rounding_mode": "trunc"}, []float64{5.96875, 1.9921875}, 3},
		{"div", graph.Attrs{"rounding_mode": "floor"}, []float64{5.96875, 1.9921875}, 2},
		{"round", graph.Attrs{"decimals": 1}, []float64{-1.65625}, -1.6015625},
	} {
		m := tensor.New(tensor.BFloat16, 1)
		var in []*tensor.Tensor
		for _, v := range c.in {
			in = append(in, kerneltest.Filled(m, func(tensor.DType) tensor.Scalar { return tensor.FloatScalar(v) }))
		}
		op := kernels.Lookup(c.op)
		call, err := kerneltest.CallOf(op, c.attrs, []tensor.Meta{m, m}[:len(in)])
		if err != nil {
			t.Fatal(err)
		}
		got, err := kerneltest.RunCall(op, call, in)
		if err != nil {
			t.Fatal(err)
		}
		if x := got[0].At(0).Float(); x != c.want {
			t.Errorf("%s %v of %v: got %v, want %v", c.op, c.attrs, c.in, x, c.want)
		}
	}
}
