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

// This file checks programs of whole ops. [Examples] and [ExtraSignatures] list calls, and [NewCall] gives a call
// random operands. [Counts.Check] compiles the call, runs the program, and compares its results with the op's reference
// implementation.

// Call is a call of an op with the values of its operands.
type Call struct {
	Op *graph.Op
	*graph.Call
	Operands []*tensor.Tensor // nil for numbers and absent operands
}

// NewCall returns a call with random operands. An operand of indices gets valid indices. An element of `in` whose dtype
// is tensor.Invalid is an absent operand. NewCall returns an error if the op rejects the call, a result is a view, or
// the shape of a result depends on the data.
func NewCall(op *graph.Op, attrs graph.Attrs, in []tensor.Meta, rng *rand.Rand) (*Call, error) {
	decoded, err := op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, err
	}
	created := &Call{Op: op, Call: &graph.Call{Attrs: decoded}}
	for i, meta := range in {
		if meta.DType == tensor.Invalid {
			created.In = append(created.In, graph.Arg{})
			continue
		}
		value := &graph.Value{Name: fmt.Sprint("x", i), Meta: meta}
		created.In = append(created.In, graph.Arg{Kind: graph.TensorArg, Value: value})
	}
	results, err := op.Infer(created.Call)
	if err != nil {
		return nil, err
	}
	for _, result := range results {
		if result.Dynamic || result.Alias != graph.NoAlias {
			return nil, errors.New("the result is a view, or its shape depends on data")
		}
		created.Out = append(created.Out, result.Meta())
	}
	created.setOperands(rng)
	return created, nil
}

// setOperands sets random operands.
func (c *Call) setOperands(rng *rand.Rand) {
	for i, arg := range c.In {
		if arg.Kind != graph.TensorArg {
			c.Operands = append(c.Operands, nil)
			continue
		}
		limit := 5 // random integers are from 0 to limit-1
		if param := c.Op.Params[min(i, len(c.Op.Params)-1)]; param.IndexBound != nil {
			limit = max(param.IndexBound(c.Call), 1)
		}
		c.Operands = append(c.Operands, random(arg.Meta(), limit, rng))
	}
}

// Examples returns the examples of an op as calls. It returns none if the op has no reference implementation, or is
// composed of other ops.
func Examples(op *graph.Op, rng *rand.Rand) (list []*Call) {
	if op.Ref == nil || op.Decompose != nil {
		return nil
	}
	for _, example := range op.Examples {
		if call, err := NewCall(op, example.Attrs, example.In, rng); err == nil {
			list = append(list, call)
		}
	}
	return list
}

// Signature describes a call of an op: its attributes, and the dtypes, shapes and strides of its operands.
type Signature struct {
	Op    string
	Attrs graph.Attrs
	In    []tensor.Meta
}

// ExtraSignatures returns calls for which package lower generates kernels that the examples of ops do not cover.
func ExtraSignatures() (list []Signature) {
	f32 := func(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }
	columnMajor := func(meta tensor.Meta) tensor.Meta { return meta.WithStrides(columnMajorStrides(meta.Shape)) }
	add := func(op string, attrs graph.Attrs, in ...tensor.Meta) {
		list = append(list, Signature{Op: op, Attrs: attrs, In: in})
	}
	// These calls have rows of one dimension. Rows of 1<<14+6 elements are cut into pieces.
	for _, meta := range []tensor.Meta{f32(3, 1030), f32(300, 3), f32(70, 8), f32(1, 1), f32(2, 1<<14+6),
		columnMajor(f32(40, 50)), columnMajor(f32(5, 600))} {
		add("sum", graph.Attrs{"dim": []int{1}}, meta)
		add("argmax", graph.Attrs{"dim": 1}, meta)
		add("var", graph.Attrs{"dim": []int{1}}, meta)
		if meta.Numel() < 1<<14 { // references are slow for longer rows
			add("softmax", graph.Attrs{"dim": 1}, meta)
			add("layer_norm", graph.Attrs{"normalized_shape": meta.Shape[1:]}, meta, f32(meta.Shape[1]),
				f32(meta.Shape[1]))
		}
		add("all", graph.Attrs{"dim": 1}, meta.WithDType(tensor.Bool))
		add("amax", graph.Attrs{"dim": []int{1}}, meta.WithDType(tensor.Int8))
	}
	// These calls have rows of several dimensions, or other dtypes.
	add("mean", nil, f32(5, 7, 9))
	add("sum", graph.Attrs{"dim": []int{0, 2}}, tensor.New(tensor.BFloat16, 5, 7, 9))
	add("sum", graph.Attrs{"dim": []int{1}}, tensor.New(tensor.Complex64, 5, 7))
	// Gathers.
	index := func(shape ...int) tensor.Meta { return tensor.New(tensor.Int64, shape...) }
	for _, dtype := range []tensor.DType{tensor.Uint8, tensor.Float32, tensor.Complex128} {
		add("embedding", nil, tensor.New(dtype, 30, 40), index(5, 7))
		add("index_select", graph.Attrs{"dim": 1}, columnMajor(tensor.New(dtype, 6, 30)),
			index(20).WithDType(tensor.Int32))
		add("gather", graph.Attrs{"dim": 0}, tensor.New(dtype, 6, 30), index(9, 30))
	}
	// Concatenations.
	add("cat", graph.Attrs{"dim": 1}, f32(3, 4), columnMajor(f32(3, 5)), tensor.New(tensor.BFloat16, 3, 1))
	add("vstack", nil, f32(40), f32(3, 40), tensor.New(tensor.Int8, 2, 40))
	// Products and convolutions.
	add("matmul", nil, f32(2, 20, 20), f32(20, 35))
	add("matmul", nil, columnMajor(f32(33, 20)), columnMajor(f32(20, 34)))
	add("addmm", graph.Attrs{"alpha": 2.0, "beta": 0.5}, f32(40), f32(20, 5), f32(5, 40))
	add("bmm", nil, tensor.New(tensor.Float64, 2, 9, 33), tensor.New(tensor.Float64, 2, 33, 5))
	add("linear", nil, tensor.New(tensor.BFloat16, 9, 33), tensor.New(tensor.BFloat16, 40, 33))
	add("conv2d", graph.Attrs{"padding": 1, "stride": 2}, f32(1, 4, 9, 10), f32(35, 4, 3, 3), f32(35))
	add("conv2d", graph.Attrs{"padding": 1, "groups": 2},
		f32(1, 4, 5, 6).WithStrides([]int{120, 1, 24, 4}), f32(6, 2, 3, 3))
	add("conv3d", graph.Attrs{"padding": 1, "dilation": 2}, f32(1, 1, 6, 7, 6), f32(2, 1, 3, 2, 3))
	return list
}

// random returns a tensor of normally distributed floats, or of integers from 0 to limit-1. It also fills gaps between
// elements.
func random(meta tensor.Meta, limit int, rng *rand.Rand) *tensor.Tensor {
	filled := tensor.Empty(meta)
	elements := meta.Extent()
	flat := tensor.Must(tensor.FromStorage(tensor.New(meta.DType, elements), filled.Storage()))
	for i := range elements {
		switch dtype := meta.DType; {
		case dtype.IsComplex():
			flat.Set(tensor.ComplexScalar(complex(rng.NormFloat64(), rng.NormFloat64())), i)
		case dtype.IsFloat():
			flat.Set(tensor.FloatScalar(rng.NormFloat64()), i)
		default:
			flat.Set(tensor.IntScalar(int64(rng.IntN(limit))), i)
		}
	}
	return filled
}

// Counts counts calls by the results of [Counts.Check].
type Counts struct {
	Equal          int      // calls whose results have the same bits as the reference
	Tolerated      int      // other calls whose results differ at most by the tolerance (see tolerance)
	Differing      int      // calls whose results differ by more than the tolerance
	Unsupported    int      // calls that devices do not support
	Results        int      // elements of all results
	UnsupportedOps []string // names of the ops of the calls that Unsupported counts
	First          string   // describes the first call that Differing counts
}

// String describes the counts in a line.
func (n *Counts) String() string {
	return fmt.Sprintf("%d calls with %d results: %d equal, %d differ by rounding, %d differ; %d have no program (%s)",
		n.Equal+n.Tolerated+n.Differing, n.Results, n.Equal, n.Tolerated, n.Differing, n.Unsupported,
		strings.Join(n.UnsupportedOps, " "))
}

// tolerance has, by dtype, the maximum distance (see [distance]) of results that are rounded differently. It is 0 for
// dtypes that are not listed.
var tolerance = map[tensor.DType]float64{tensor.Float16: 4e-3, tensor.BFloat16: 3e-2, tensor.Float32: 2e-5,
	tensor.Complex64: 2e-5, tensor.Float64: 1e-9, tensor.Complex128: 1e-9}

// Check compiles and runs a call, compares its results with the op's reference implementation, and counts the call.
func (n *Counts) Check(call *Call, target lower.Target, run Run) error {
	program, err := compile.Call(call.Op, call.Call, nil, target)
	if errors.Is(err, lower.ErrUnsupported) {
		if n.Unsupported++; !slices.Contains(n.UnsupportedOps, call.Op.Name) {
			n.UnsupportedOps = append(n.UnsupportedOps, call.Op.Name)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", call.Op.Name, err)
	}
	results, err := call.run(program, run)
	if err != nil {
		return fmt.Errorf("%s: %w", call.Op.Name, err)
	}
	want, err := call.Op.Ref(call.Call, call.Operands)
	if err != nil {
		return fmt.Errorf("%s: %w", call.Op.Name, err)
	}
	maxRatio := 0.0 // the maximum, over the outputs, of the distance divided by the tolerance
	for output, expected := range want {
		n.Results += expected.Numel()
		allowed := max(tolerance[call.Out[output].DType], math.SmallestNonzeroFloat64) // not 0: 0/0 would be NaN
		maxRatio = max(maxRatio, distance(expected, results[output])/allowed)
	}
	switch {
	case maxRatio == 0:
		n.Equal++
	case maxRatio <= 1:
		n.Tolerated++
	default:
		if n.Differing++; n.First == "" {
			n.First = fmt.Sprintf("%s %+v of %v", call.Op.Name, call.Attrs, call.Out)
		}
	}
	return nil
}

// run runs a program of the call, and returns its results.
func (c *Call) run(program *lower.Program, run Run) (results []*tensor.Tensor, err error) {
	var mem [][]byte // memory of the results, followed by memory of the operands
	for _, meta := range c.Out {
		result := tensor.Empty(meta)
		results, mem = append(results, result), append(mem, result.Storage().Bytes())
	}
	for _, operand := range c.Operands {
		if operand == nil {
			mem = append(mem, nil)
		} else {
			mem = append(mem, operand.Storage().Bytes())
		}
	}
	return results, run(program, mem)
}

// distance returns the greatest difference of two corresponding elements of want and got, divided by the greatest
// finite magnitude in want or by 1 if this is greater. The difference of two elements is infinite if only one element
// is finite, if both are infinities of different sign, or if only one element is a NaN.
func distance(want, got *tensor.Tensor) float64 {
	magnitude, maxDifference := 0.0, 0.0
	compare := func(wanted, actual float64) {
		maxDifference = max(maxDifference, difference(wanted, actual))
		if !math.IsInf(wanted, 0) && !math.IsNaN(wanted) {
			magnitude = max(magnitude, math.Abs(wanted))
		}
	}
	index := make([]int, want.Rank())
	for range want.Numel() {
		wanted, actual := want.At(index...).Complex(), got.At(index...).Complex()
		compare(real(wanted), real(actual))
		compare(imag(wanted), imag(actual))
		advance(index, want.Shape)
	}
	if maxDifference == 0 {
		return 0
	}
	return maxDifference / max(magnitude, 1)
}

// difference returns the magnitude of the difference of two numbers. It is 0 for equal infinities and for two NaNs. It
// is infinite for other pairs with an infinity or a NaN.
func difference(a, b float64) float64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	if result := math.Abs(a - b); !math.IsNaN(result) {
		return result
	}
	return math.Inf(1)
}
