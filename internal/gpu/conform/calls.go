package conform

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/compile"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/tensor"
)

// Call is a call of an op with operands.
type Call struct {
	Op *graph.Op
	*graph.Call
	Operands []*tensor.Tensor // nil for numbers and absent operands
}

// NewCall returns a call with random operands. Operands that are indices have valid indices. NewCall returns an error
// if the op rejects the call.
func NewCall(op *graph.Op, attrs graph.Attrs, in []tensor.Meta, rng *rand.Rand) (*Call, error) {
	decoded, err := op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, err
	}
	c := &Call{Op: op, Call: &graph.Call{Attrs: decoded}}
	for i, m := range in {
		if m.DType == tensor.Invalid {
			c.In = append(c.In, graph.Arg{})
			continue
		}
		v := &graph.Value{Name: fmt.Sprint("x", i), Meta: m}
		c.In = append(c.In, graph.Arg{Kind: graph.TensorArg, Value: v})
	}
	results, err := op.Infer(c.Call)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		if r.Dynamic || r.Alias != graph.Fresh {
			return nil, errors.New("the result is a view, or its shape depends on data")
		}
		c.Out = append(c.Out, r.Meta())
	}
	for i, m := range in {
		if c.In[i].Kind != graph.TensorArg {
			c.Operands = append(c.Operands, nil)
			continue
		}
		limit := 5
		if p := op.Params[min(i, len(op.Params)-1)]; p.Below != nil {
			limit = max(p.Below(c.Call), 1)
		}
		c.Operands = append(c.Operands, random(m, limit, rng))
	}
	return c, nil
}

// Examples returns the examples of an op as calls. It returns none if the op has no reference implementation, or is
// composed of other ops.
func Examples(op *graph.Op, rng *rand.Rand) (list []*Call) {
	if op.Ref == nil || op.Decompose != nil {
		return nil
	}
	for _, ex := range op.Examples {
		if c, err := NewCall(op, ex.Attrs, ex.In, rng); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// Shape is a call of an op without operands: its attributes, and the shapes and layouts of its operands.
type Shape struct {
	Op    string
	Attrs graph.Attrs
	In    []tensor.Meta
}

// Shapes returns calls whose shapes and layouts are lowered to other kernels than the examples of ops.
func Shapes() (list []Shape) {
	f32 := func(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }
	reversed := func(m tensor.Meta) tensor.Meta { return m.WithStrides(strides(m.Shape, 1, true)) }
	add := func(op string, attrs graph.Attrs, in ...tensor.Meta) { list = append(list, Shape{op, attrs, in}) }
	for _, m := range []tensor.Meta{f32(3, 1030), f32(300, 3), f32(70, 8), f32(1, 1), f32(2, 1<<14+6),
		reversed(f32(40, 50)), reversed(f32(5, 600))} {
		add("sum", graph.Attrs{"dim": []int{1}}, m)
		add("argmax", graph.Attrs{"dim": 1}, m)
		add("var", graph.Attrs{"dim": []int{1}}, m)
		if m.Numel() < 1<<14 { // the references of longer rows take long
			add("softmax", graph.Attrs{"dim": 1}, m)
			add("layer_norm", graph.Attrs{"normalized_shape": m.Shape[1:]}, m, f32(m.Shape[1]), f32(m.Shape[1]))
		}
		add("all", graph.Attrs{"dim": 1}, m.WithDType(tensor.Bool))
		add("amax", graph.Attrs{"dim": []int{1}}, m.WithDType(tensor.Int8))
	}
	add("mean", nil, f32(5, 7, 9))
	add("sum", graph.Attrs{"dim": []int{0, 2}}, tensor.New(tensor.BFloat16, 5, 7, 9))
	add("sum", graph.Attrs{"dim": []int{1}}, tensor.New(tensor.Complex64, 5, 7))
	index := func(shape ...int) tensor.Meta { return tensor.New(tensor.Int64, shape...) }
	for _, d := range []tensor.DType{tensor.Uint8, tensor.Float32, tensor.Complex128} {
		add("embedding", nil, tensor.New(d, 30, 40), index(5, 7))
		add("index_select", graph.Attrs{"dim": 1}, reversed(tensor.New(d, 6, 30)), index(20).WithDType(tensor.Int32))
		add("gather", graph.Attrs{"dim": 0}, tensor.New(d, 6, 30), index(9, 30))
	}
	add("cat", graph.Attrs{"dim": 1}, f32(3, 4), reversed(f32(3, 5)), tensor.New(tensor.BFloat16, 3, 1))
	add("vstack", nil, f32(40), f32(3, 40), tensor.New(tensor.Int8, 2, 40))
	add("matmul", nil, f32(2, 20, 20), f32(20, 35))
	add("matmul", nil, reversed(f32(33, 20)), reversed(f32(20, 34)))
	add("addmm", graph.Attrs{"alpha": 2.0, "beta": 0.5}, f32(40), f32(20, 5), f32(5, 40))
	add("bmm", nil, tensor.New(tensor.Float64, 2, 9, 33), tensor.New(tensor.Float64, 2, 33, 5))
	add("linear", nil, tensor.New(tensor.BFloat16, 9, 33), tensor.New(tensor.BFloat16, 40, 33))
	add("conv2d", graph.Attrs{"padding": 1, "stride": 2}, f32(1, 4, 9, 10), f32(35, 4, 3, 3), f32(35))
	add("conv2d", graph.Attrs{"padding": 1, "groups": 2},
		f32(1, 4, 5, 6).WithStrides([]int{120, 1, 24, 4}), f32(6, 2, 3, 3))
	add("conv3d", graph.Attrs{"padding": 1, "dilation": 2}, f32(1, 1, 6, 7, 6), f32(2, 1, 3, 2, 3))
	return list
}

// random returns a tensor of normally distributed floats, or of integers from 0 to limit-1.
func random(m tensor.Meta, limit int, rng *rand.Rand) *tensor.Tensor {
	t := tensor.Empty(m)
	n := m.Extent()
	flat := tensor.Must(tensor.Over(tensor.New(m.DType, n), t.Storage()))
	for i := range n {
		switch d := m.DType; {
		case d.IsComplex():
			flat.Set(tensor.ComplexScalar(complex(rng.NormFloat64(), rng.NormFloat64())), i)
		case d.IsFloat():
			flat.Set(tensor.FloatScalar(rng.NormFloat64()), i)
		default:
			flat.Set(tensor.IntScalar(int64(rng.IntN(limit))), i)
		}
	}
	return t
}

// Counts counts calls by the results of [Counts.Check].
type Counts struct {
	Equal       int      // calls whose results have the same bits as the reference
	Near        int      // calls whose results differ by rounding
	Differ      int      // calls whose results differ by more
	None        int      // calls that devices do not support
	Results     int      // elements of all results
	Unsupported []string // names of the ops of None
	First       string   // describes the first call of Differ
}

// String describes the counts in a line.
func (n *Counts) String() string {
	return fmt.Sprintf("%d calls with %d results: %d equal, %d differ by rounding, %d differ; %d have no program (%s)",
		n.Equal+n.Near+n.Differ, n.Results, n.Equal, n.Near, n.Differ, n.None, strings.Join(n.Unsupported, " "))
}

// tolerance bounds the difference of results that are rounded differently, relative to the greatest result.
var tolerance = map[tensor.DType]float64{tensor.Float16: 4e-3, tensor.BFloat16: 3e-2, tensor.Float32: 2e-5,
	tensor.Complex64: 2e-5, tensor.Float64: 1e-9, tensor.Complex128: 1e-9}

// Check compiles and runs a call, compares its results with the op's reference implementation, and counts the call.
func (n *Counts) Check(c *Call, t lower.Target, run Run) error {
	p, err := compile.Call(c.Op, c.Call, nil, t)
	if errors.Is(err, lower.ErrUnsupported) {
		if n.None++; !slices.Contains(n.Unsupported, c.Op.Name) {
			n.Unsupported = append(n.Unsupported, c.Op.Name)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Op.Name, err)
	}
	var results []*tensor.Tensor
	var mem [][]byte
	for _, m := range c.Out {
		t := tensor.Empty(m)
		results, mem = append(results, t), append(mem, t.Storage().Bytes())
	}
	for _, t := range c.Operands {
		if t == nil {
			mem = append(mem, nil)
		} else {
			mem = append(mem, t.Storage().Bytes())
		}
	}
	if err := run(p, mem); err != nil {
		return fmt.Errorf("%s: %w", c.Op.Name, err)
	}
	want, err := c.Op.Ref(c.Call, c.Operands)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Op.Name, err)
	}
	worst := 0.0
	for o, w := range want {
		n.Results += w.Numel()
		worst = max(worst, distance(w, results[o])/max(tolerance[c.Out[o].DType], math.SmallestNonzeroFloat64))
	}
	switch {
	case worst == 0:
		n.Equal++
	case worst <= 1:
		n.Near++
	default:
		if n.Differ++; n.First == "" {
			n.First = fmt.Sprintf("%s %+v of %v", c.Op.Name, c.Attrs, c.Out)
		}
	}
	return nil
}

// distance returns the greatest difference of two tensors, divided by the greatest finite magnitude. It is infinite if
// only one of two elements is finite, or if infinities or NaN differ.
func distance(want, got *tensor.Tensor) float64 {
	greatest, most := 0.0, 0.0
	index := make([]int, want.Rank())
	for range want.Numel() {
		a, b := want.At(index...).Complex(), got.At(index...).Complex()
		for _, x := range [][2]float64{{real(a), real(b)}, {imag(a), imag(b)}} {
			d := math.Abs(x[0] - x[1])
			switch {
			case x[0] == x[1] || math.IsNaN(x[0]) && math.IsNaN(x[1]):
				d = 0
			case math.IsNaN(d):
				d = math.Inf(1)
			}
			most = max(most, d)
			if a := math.Abs(x[0]); a < math.Inf(1) {
				greatest = max(greatest, a)
			}
		}
		advance(index, want.Shape)
	}
	if most == 0 {
		return 0
	}
	return most / max(greatest, 1)
}
