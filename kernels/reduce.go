package kernels

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/axes"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// reduceSpec is a reduction of one call: what Infer, Compile and Ref derive from.
type reduceSpec struct {
	mask    []bool // by dimension of the operand: is it reduced
	keepdim bool
	cast    tensor.DType   // the operand is converted to it first, as PyTorch does
	outs    []tensor.DType // dtypes of the results
	fold    func() *iter.Fold
	// ref computes the results of one run of values, of dtype cast, in logical order.
	ref func(x []tensor.Scalar) []tensor.Scalar
}

// reductionOp defines an op of one operand by its spec.
func reductionOp[A any](o graph.Op, spec func(c *graph.Call) (reduceSpec, error)) *graph.Op {
	o.Params = []graph.Param{self}
	o.AnyOrder = true
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		s, err := spec(c)
		if err != nil {
			return nil, err
		}
		return s.infer(c.Type(0)), nil
	}
	o.Compile = func(c *graph.Call) (*graph.Kernel, error) {
		s, err := spec(c)
		if err != nil {
			return nil, err
		}
		return s.compile(c)
	}
	o.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		s, err := spec(c)
		if err != nil {
			return nil, err
		}
		return s.reference(in[0]), nil
	}
	return define[A](o)
}

func (s *reduceSpec) compile(c *graph.Call) (*graph.Kernel, error) {
	if tensor.Numel(c.Out[0].Shape) == 0 {
		return &graph.Kernel{}, nil
	}
	r, err := newReducer(c.Meta(0), s.mask, c.Out, s.keepdim, s.cast, s.fold())
	if err != nil {
		return nil, err
	}
	k := &graph.Kernel{Scratch: r.Scratch(), Worker: r.Worker()}
	for phase := range r.Phases() {
		k.Phases = append(k.Phases, graph.Phase{Chunks: r.Chunks(phase), Run: func(m *graph.Mem, chunk int) error {
			return r.Run(phase, chunk, m.Ptrs, m.Scratch, m.Worker)
		}})
	}
	return k, nil
}

// newReducer prepares the reduction of an operand, converted to cast first, into outputs
// of the shape that the mask leaves.
func newReducer(m tensor.Meta, mask []bool, outs []tensor.Meta, keepdim bool, cast tensor.DType, f *iter.Fold) (*iter.Reducer, error) {
	c := iter.New().CheckMemOverlap(false).ResizeOutputs(false).IsReduction(true).CastInputs(cast)
	for _, o := range outs {
		c = c.Output(iter.Of(iter.ReduceOutput(o, mask, keepdim)))
	}
	it, err := c.Input(iter.Of(m)).Build()
	if err != nil {
		return nil, err
	}
	return it.Reducer(f)
}

// oneDim is [iter.ReduceMask] for an op that takes one dimension or none.
func oneDim(dim *int, rank int) ([]bool, error) {
	if dim == nil {
		return iter.ReduceMask(nil, rank)
	}
	return iter.ReduceMask([]int{*dim}, rank)
}

// reduceCount returns the number of elements that make one result.
func reduceCount(shape []int, mask []bool) int {
	n := 1
	for d, s := range shape {
		if mask[d] {
			n *= s
		}
	}
	return n
}

// reducedSizes is [reduceCount] for sizes that may be unknown.
func reducedSizes(shape []sym.Int, mask []bool) sym.Int {
	n := sym.Of(1)
	for d, s := range shape {
		if mask[d] {
			n = n.Mul(s)
		}
	}
	return n
}

// infer: reductions lay their results out row-major whatever the operand's layout.
func (s *reduceSpec) infer(t tensor.Type) []graph.Result {
	out := tensor.NewType(s.outs[0], iter.ReduceSizes(t.Shape, s.mask, s.keepdim)...)
	res := make([]graph.Result, len(s.outs))
	for i, d := range s.outs {
		res[i] = graph.Result{Type: out.WithDType(d), Alias: graph.Fresh}
	}
	return res
}

func (s *reduceSpec) reference(t *tensor.Tensor) []*tensor.Tensor {
	t = t.CopyTo(tensor.New(s.cast, t.Shape...))
	outs := make([]*tensor.Tensor, len(s.outs))
	shape := iter.ReduceShape(t.Shape, s.mask, true)
	for i, d := range s.outs {
		outs[i] = tensor.Zeros(d, shape...)
	}
	run := make([]int, len(shape))
	for d := range run {
		run[d] = 1
		if s.mask[d] {
			run[d] = t.Shape[d]
		}
	}
	at := make([]int, len(shape))
	x := make([]tensor.Scalar, 0, tensor.Numel(run))
	eachIndex(shape, func(index []int) {
		x = x[:0]
		eachIndex(run, func(r []int) {
			for d := range at {
				at[d] = index[d] + r[d]
			}
			x = append(x, t.At(at...))
		})
		for i, y := range s.ref(x) {
			outs[i].Set(y, index...)
		}
	})
	for i, o := range outs {
		outs[i] = tensor.Must(o.View(tensor.New(o.DType, iter.ReduceShape(t.Shape, s.mask, s.keepdim)...)))
	}
	return outs
}

// blockLen is the number of elements that loops take at once.
const blockLen = axes.BlockLen

// region hands out parts of a worker's memory.
type region struct{ b []byte }

func (r *region) take(n int) unsafe.Pointer {
	p := unsafe.Pointer(unsafe.SliceData(r.b))
	r.b = r.b[alignUp(n):]
	return p
}

func (r *region) ints(n int) []int { return unsafe.Slice((*int)(r.take(n*8)), n) }
