package composite

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type meshgridAttrs struct {
	Indexing string `attr:"indexing" default:"ij" doc:"ij: dimensions in the order of the operands; xy: the first two swapped"`
}

// Views of several operands in a common shape. The function of an op applies other ops (steps.go) and returns the
// results.
var (
	BroadcastTensors = viewEach("broadcast_tensors", "Expands values to the shape to which they broadcast.",
		[]graph.Example{kit.Example(nil, kit.F32(2, 1), kit.F32(3))},
		func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) []*graph.Arg {
			var shape []sym.Int
			for _, x := range in {
				joint, err := tensor.BroadcastSizes(shape, s.shape(x))
				s.Check(err)
				shape = joint
			}
			out := make([]*graph.Arg, len(in))
			for i, x := range in {
				out[i] = s.Apply(view.Expand, graph.Attrs{"size": shape}, x)
			}
			return out
		})
	Meshgrid = viewEach("meshgrid", "Expands vectors to a grid with a dimension for each of them.",
		[]graph.Example{kit.Example(nil, kit.F32(2), kit.F32(3)),
			kit.Example(graph.Attrs{"indexing": "xy"}, kit.F32(2), kit.F32(3))}, meshgrid)
	Atleast1d = atLeastOp("atleast_1d", "Adds a dimension of size 1 to values without dimensions.", 1)
	Atleast2d = atLeastOp("atleast_2d", "Adds leading dimensions of size 1 up to rank 2.", 2)
	Atleast3d = atLeastOp("atleast_3d", "Adds dimensions of size 1 up to rank 3. A matrix gets its new dimension at the "+
		"end.", 3)
)

// atLeastOp defines the op that adds dimensions to each operand, up to the given rank.
func atLeastOp(name, doc string, rank int) *graph.Op {
	return viewEach(name, doc, []graph.Example{kit.Example(nil, kit.F32()), kit.Example(nil, kit.F32(2), kit.F32(2, 3))},
		func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) []*graph.Arg {
			out := make([]*graph.Arg, len(in))
			for i, x := range in {
				out[i] = s.atLeast(x, rank)
			}
			return out
		})
}

// atLeast returns a view of x with at least the given rank, which is at most 3.
func (s applier) atLeast(x *graph.Arg, rank int) *graph.Arg {
	shape := s.shape(x)
	switch missing := rank - len(shape); {
	case missing <= 0:
		return s.Apply(view.Expand, graph.Attrs{"size": shape}, x)
	case len(shape) == 0:
		return s.reshape(x, padOnes(nil, rank)...)
	case len(shape) == 2:
		return s.unsqueeze(x, -1)
	case missing == 1:
		return s.unsqueeze(x, 0)
	}
	return s.unsqueeze(s.unsqueeze(x, 0), -1)
}

// viewEach defines an op whose results are views of its operands.
func viewEach[A any](name, doc string, examples []graph.Example,
	views func(s applier, a A, in []*graph.Arg) []*graph.Arg) *graph.Op {
	return compose.Define[A](graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc, Params: []graph.Param{kit.Tensors}, VariadicResults: true, Examples: examples,
	}, Facts: graph.Facts{Parallel: noLoops}}, func(s *compose.Applier) []*graph.Arg {
		return views(applier{s}, kit.Attrs[A](s.Call), s.Operands())
	})
}

func meshgrid(s applier, a *meshgridAttrs, in []*graph.Arg) []*graph.Arg {
	s.Reject(a.Indexing != "ij" && a.Indexing != "xy", "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but "+
		"received: %s", a.Indexing)
	s.Reject(len(in) == 0, "meshgrid expects a non-empty TensorList")
	for _, x := range in {
		t := x.Type()
		s.Reject(t.DType != in[0].Type().DType, "torch.meshgrid expects all tensors to have the same dtype")
		s.Reject(t.Rank() > 1, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: %v", t)
	}
	swapsFirstTwo := a.Indexing == "xy" && len(in) > 1
	in = slices.Clone(in)
	if swapsFirstTwo {
		in[0], in[1] = in[1], in[0]
	}
	var gridShape []sym.Int
	for _, x := range in {
		gridShape = append(gridShape, x.Type().Numel())
	}
	for i, x := range in {
		line := s.reshape(x, append(append(padOnes(nil, i), gridShape[i]), padOnes(nil, len(in)-1-i)...)...)
		in[i] = s.Apply(view.Expand, graph.Attrs{"size": gridShape}, line)
	}
	if swapsFirstTwo {
		in[0], in[1] = in[1], in[0]
	}
	return in
}
