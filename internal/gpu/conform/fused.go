package conform

import (
	"math/rand/v2"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// fusedSample is a product or a convolution, and pointwise ops on its result.
type fusedSample struct {
	op           string
	attrs        graph.Attrs
	in           []tensor.Meta
	steps        []fusedStep // each step computes the operand of the next step
	extraResults int         // number of results, apart from the last one, that remain results
}

// fusedStep is a pointwise op on a result. If other has a dtype, it is the second operand.
type fusedStep struct {
	op    string
	other tensor.Meta
}

// Fused returns calls of products and convolutions with epilogues. lookup finds ops by name. The epilogue of the last
// call is too long for the kernel of a product.
func Fused(lookup graph.Lookup, rng *rand.Rand) (list []*Call, err error) {
	f32 := func(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }
	f64 := func(shape ...int) tensor.Meta { return tensor.New(tensor.Float64, shape...) }
	columnMajor := func(meta tensor.Meta) tensor.Meta { return meta.WithStrides(columnMajorStrides(meta.Shape)) }
	channelsLast := f32(2, 4, 9, 10).WithStrides([]int{360, 1, 40, 4})
	for _, sample := range []fusedSample{
		{op: "linear", in: []tensor.Meta{f32(9, 33), f32(40, 33), f32(40)},
			steps: []fusedStep{{op: "relu"}, {"add", f32(9, 40)}, {"mul", f32(40)}}},
		{op: "conv2d", attrs: graph.Attrs{"padding": 1, "stride": 2},
			in:    []tensor.Meta{f32(2, 4, 9, 10), f32(35, 4, 3, 3)},
			steps: []fusedStep{{"mul", f32(35, 1, 1)}, {"add", columnMajor(f32(2, 35, 5, 5))}, {op: "sigmoid"}}},
		{op: "conv2d", attrs: graph.Attrs{"groups": 2}, in: []tensor.Meta{channelsLast, f32(6, 2, 3, 3)},
			steps: []fusedStep{{"add", tensor.New(tensor.Int8, 2, 1, 7, 8)}, {"gt", f32()}}, extraResults: 2},
		{op: "bmm", in: []tensor.Meta{f64(2, 9, 33), f64(2, 33, 5)},
			steps: []fusedStep{{"mul", tensor.New(tensor.Complex128, 9, 1)}}, extraResults: 1},
		{op: "matmul", in: []tensor.Meta{f32(20, 7), f32(7, 20)}, steps: slices.Repeat([]fusedStep{{op: "tanh"}}, 40)},
	} {
		call, err := sample.call(lookup, rng)
		if err != nil {
			return nil, err
		}
		list = append(list, call)
	}
	return list, nil
}

// call returns the call of the fused node.
func (sample *fusedSample) call(lookup graph.Lookup, rng *rand.Rand) (*Call, error) {
	g := graph.New("fused", lookup)
	var operands []any
	for _, meta := range sample.in {
		operands = append(operands, g.InputMeta(g.UniqueName("x"), meta))
	}
	result := g.Apply(sample.op, sample.attrs, operands...)[0]
	results := []*graph.Value{result}
	for _, step := range sample.steps {
		operands := []any{result}
		if step.other.DType != tensor.Invalid {
			operands = append(operands, g.InputMeta(g.UniqueName("x"), step.other))
		}
		result = g.Apply(step.op, nil, operands...)[0]
		results = append(results, result)
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	remaining := results[len(results)-1-sample.extraResults:]
	// Anchor means that the first node is a product or a convolution, and that the other nodes are its epilogue.
	nodes, err := fusion.NewFuser(g).Fuse([]fusion.Group{{Nodes: slices.Clone(g.Nodes), Anchor: true}},
		func(v *graph.Value) bool { return slices.Contains(remaining, v) })
	if err != nil {
		return nil, err
	}
	call := &Call{Op: nodes[0].Op, Call: nodes[0].Call()}
	call.setOperands(rng)
	return call, nil
}
