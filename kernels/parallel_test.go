package kernels_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/batch"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestParallel compares every loop that an op claims to be parallel with its reference: the reference of the slices of
// the operands computes the slices of the results, bit by bit. Ops without a loop in any example are listed.
func TestParallel(t *testing.T) {
	testsize.Long(t)
	var without []string
	loops := 0
	for _, op := range kernels.All() {
		found := op.Reshapes || op.Decompose != nil // package batch follows them
		t.Run(op.Name, func(t *testing.T) {
			for i, ex := range op.Examples {
				n := checkLoops(t, op, ex, rand.New(rand.NewPCG(3, uint64(i))))
				loops += n
				found = found || n > 0
			}
		})
		if !found {
			without = append(without, op.Name)
		}
	}
	t.Logf("%d loops of %d ops; without a loop: %s", loops, len(kernels.All())-len(without), strings.Join(without, " "))
}

// TestLoopsOfUnsqueeze: each dimension of the operand is a loop, wherever the new dimension is.
func TestLoopsOfUnsqueeze(t *testing.T) {
	for _, shape := range [][]int{{3}, {3, 4}, {2, 3, 4}} {
		for dim := range len(shape) + 1 {
			ex := graph.Example{In: []tensor.Meta{tensor.New(tensor.Float32, shape...)}, Attrs: graph.Attrs{"dim": dim}}
			require.Equal(t, len(shape), checkLoops(t, kernels.Lookup("unsqueeze"), ex, rand.New(rand.NewPCG(1, 2))),
				"%v, dimension %d", shape, dim)
		}
	}
}

// TestLoopsOfScatter: all dimensions are loops, except those of self that the attributes index.
func TestLoopsOfScatter(t *testing.T) {
	for _, tc := range []struct {
		op    string
		attrs graph.Attrs
		src   []int
		loops int
	}{
		{"select_scatter", graph.Attrs{"dim": 0, "index": 1}, []int{3, 4, 5}, 3},
		{"select_scatter", graph.Attrs{"dim": -1, "index": 1}, []int{2, 3, 4}, 3},
		{"diagonal_scatter", graph.Attrs{"dim1": 0, "dim2": 2}, []int{3, 5, 2}, 2},
		{"diagonal_scatter", graph.Attrs{"dim1": -1, "dim2": 1, "offset": 1}, []int{2, 4, 2}, 2},
		{"slice_scatter", graph.Attrs{"dim": 1, "end": 2}, []int{2, 2, 4, 5}, 3},
	} {
		self, src := tensor.New(tensor.Float32, 2, 3, 4, 5), tensor.New(tensor.Float32, tc.src...)
		ex := graph.Example{In: []tensor.Meta{self, src}, Attrs: tc.attrs}
		found := checkLoops(t, kernels.Lookup(tc.op), ex, rand.New(rand.NewPCG(1, 2)))
		require.Equal(t, tc.loops, found, "%s %v", tc.op, tc.attrs)
	}
}

// TestLoopsOfSolve: the dimensions of the batch are loops, unless B is a matrix or a batch of vectors depending on the
// size of the batch: B [4, 4] is a matrix for 3 matrices A [4, 4], and a batch of vectors for 4.
func TestLoopsOfSolve(t *testing.T) {
	solve, lstsq := kernels.Lookup("linalg_solve"), kernels.Lookup("linalg_lstsq")
	for _, tc := range []struct {
		op    *graph.Op
		attrs graph.Attrs
		a, b  []int
		loops int
	}{
		{solve, nil, []int{3, 4, 4}, []int{3, 4, 2}, 1},
		{solve, nil, []int{3, 4, 4}, []int{4, 2}, 1},
		{solve, nil, []int{3, 4, 4}, []int{4}, 1},
		{solve, nil, []int{3, 4, 4}, []int{3, 4}, 1},
		{solve, nil, []int{3, 4, 4}, []int{1, 4, 2}, 1},
		{solve, nil, []int{4, 4}, []int{3, 4, 2}, 1},
		{solve, nil, []int{3, 1, 4, 4}, []int{5, 4, 2}, 2},
		{solve, nil, []int{3, 4, 4}, []int{4, 4}, 0},
		{solve, nil, []int{4, 4}, []int{4}, 0},
		{lstsq, graph.Attrs{"driver": "gelsd"}, []int{3, 4, 2}, []int{3, 4, 5}, 1},
		{lstsq, graph.Attrs{"driver": "gelsd"}, []int{3, 4, 2}, []int{3, 4}, 1},
		{lstsq, graph.Attrs{"driver": "gelsd"}, []int{3, 4, 2}, []int{1, 4}, 0},
	} {
		a, b := tensor.New(tensor.Float64, tc.a...), tensor.New(tensor.Float64, tc.b...)
		ex := graph.Example{In: []tensor.Meta{a, b}, Attrs: tc.attrs}
		found := checkLoops(t, tc.op, ex, rand.New(rand.NewPCG(1, 2)))
		require.Equal(t, tc.loops, found, "%s of %v and %v", tc.op.Name, tc.a, tc.b)
	}
}

// checkLoops checks the loops of an example and returns their number.
func checkLoops(t *testing.T, op *graph.Op, ex graph.Example, r *rand.Rand) int {
	c, err := kerneltest.CallOf(op, ex.Attrs, ex.In)
	if err != nil {
		t.Fatal(err)
	}
	res, err := kerneltest.Infer(op, c)
	if err != nil || slices.ContainsFunc(res, func(r graph.Result) bool { return r.Dynamic }) {
		return 0
	}
	loops := op.ParallelLoops(c)
	if len(loops) == 0 {
		return 0
	}
	in := make([]*tensor.Tensor, len(ex.In))
	for k, m := range ex.In {
		if m.DType == tensor.Invalid {
			continue
		}
		draw := kerneltest.IndexValues(r)
		if m.DType.IsFloat() || m.DType.IsComplex() {
			draw = func(tensor.DType) tensor.Scalar { return tensor.FloatScalar(2*r.Float64() - 0.5) }
		}
		in[k] = kerneltest.Filled(m, draw)
	}
	want, err := op.Ref(c, in)
	for most := int64(3); err != nil && most > 0; most-- { // a division by zero, or an index out of range
		for k, m := range ex.In {
			if in[k] = nil; m.DType != tensor.Invalid {
				in[k] = kerneltest.Filled(m, func(tensor.DType) tensor.Scalar { return tensor.IntScalar(1 + r.Int64N(most)) })
			}
		}
		want, err = op.Ref(c, in)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loops {
		for i := range c.Out[0].Shape[p.ResultDims[0]] {
			if err := checkIteration(op, ex.Attrs, p, i, in, want); err != nil {
				t.Errorf("%+v, iteration %d: %v", p, i, err)
				break
			}
		}
	}
	return len(loops)
}

// checkIteration compares the reference of slices with slices of the reference.
func checkIteration(op *graph.Op, attrs graph.Attrs, p graph.Parallel, i int, in, want []*tensor.Tensor) error {
	part := slices.Clone(in)
	metas := make([]tensor.Meta, len(in))
	for k, x := range in {
		if x == nil {
			continue
		}
		if p.OperandDims[k] != graph.Whole {
			part[k] = sliceOf(x, p.OperandDims[k], i)
		}
		metas[k] = part[k].Meta
	}
	if op.SizesAttr != "" {
		attrs = maps.Clone(attrs)
		attrs[op.SizesAttr] = slices.Clone(sliceOf(want[0], p.ResultDims[0], i).Shape)
	}
	c, err := kerneltest.CallOf(op, attrs, metas)
	if err != nil {
		return err
	}
	if _, err := kerneltest.Infer(op, c); err != nil {
		return err
	}
	got, err := op.Ref(c, part)
	if err != nil {
		return err
	}
	for k := range want {
		slice := sliceOf(want[k], p.ResultDims[k], i)
		if !slices.Equal(got[k].Shape, slice.Shape) || !slices.Equal(c.Out[k].Shape, slice.Shape) {
			return fmt.Errorf("result %d has the shape %v, not %v", k, got[k].Shape, slice.Shape)
		}
		for at, index := range indices(slice.Shape) {
			if x, y := got[k].At(index...), slice.At(index...); fmt.Sprint(x) != fmt.Sprint(y) {
				return fmt.Errorf("element %d of result %d is %v, not %v", at, k, x, y)
			}
		}
	}
	return nil
}

// sliceOf returns a row-major copy of slice i of a dimension, which keeps the dimension.
func sliceOf(x *tensor.Tensor, dim, i int) *tensor.Tensor {
	shape := slices.Clone(x.Shape)
	shape[dim] = 1
	y := tensor.Zeros(x.DType, shape...)
	for at, index := range indices(shape) {
		index[dim] = i
		y.SetFlat(at, x.At(index...))
	}
	return y
}

// indices yields the indices of a shape in row-major order.
func indices(shape []int) iter.Seq2[int, []int] {
	return func(yield func(int, []int) bool) {
		for at := range tensor.Numel(shape) {
			index, rest := make([]int, len(shape)), at
			for d := len(shape) - 1; d >= 0; d-- {
				index[d], rest = rest%shape[d], rest/shape[d]
			}
			if !yield(at, index) {
				return
			}
		}
	}
}

// TestRows makes a graph of each example and takes each dimension of each operand, and of all operands of the same rank
// and size, as the rows. The other operands are constants. Where package batch proves that the rows are independent,
// the graph for one row computes each row of the results, bit by bit, and the graph for more rows has their shape.
func TestRows(t *testing.T) {
	testsize.Long(t)
	proved := map[string]bool{}
	for _, op := range kernels.All() {
		t.Run(op.Name, func(t *testing.T) {
			for i, ex := range op.Examples {
				for k, m := range ex.In {
					for dim := range m.Shape {
						alone, all := map[int]bool{k: true}, map[int]bool{}
						for other, o := range ex.In {
							all[other] = o.Rank() == m.Rank() && o.Shape[dim] == m.Shape[dim]
						}
						for _, with := range []map[int]bool{alone, all} {
							if checkRows(t, op, ex, with, dim, uint64(i)) {
								proved[op.Name] = true
							}
						}
					}
				}
			}
		})
	}
	var without []string
	for _, op := range kernels.All() {
		if !proved[op.Name] {
			without = append(without, op.Name)
		}
	}
	t.Logf("rows of %d ops are independent; not of %s", len(proved), strings.Join(without, " "))
	if len(proved) < 440 {
		t.Errorf("rows of %d ops are independent", len(proved))
	}
}

// checkRows checks the rows of dimension dim of some operands and reports whether they are independent.
func checkRows(t *testing.T, op *graph.Op, ex graph.Example, with map[int]bool, dim int, seed uint64) bool {
	r := rand.New(rand.NewPCG(seed, 5))
	g := graph.New("rows", kernels.Lookup)
	operands := make([]any, len(ex.In))
	inputs, dims := map[string]*tensor.Tensor{}, map[string]int{}
	for i, m := range ex.In {
		if m.DType == tensor.Invalid {
			continue
		}
		data := kerneltest.Filled(m, func(d tensor.DType) tensor.Scalar {
			if d.IsFloat() {
				return tensor.FloatScalar(0.5 + r.Float64())
			}
			return tensor.IntScalar(1)
		})
		if name := fmt.Sprint("x", i); with[i] {
			inputs[name], dims[name], operands[i] = data, dim, g.InputMeta(name, m)
		} else {
			operands[i] = g.Constant(fmt.Sprint("c", i), data)
		}
	}
	for i, v := range g.Apply(op.Name, ex.Attrs, operands...) {
		g.Output(fmt.Sprint("y", i), v)
	}
	if g.Err() != nil || g.Infer() != nil {
		return false
	}
	p, err := batch.Follow(g, dims)
	if err != nil {
		return false
	}
	want, err := graph.Evaluate(g, inputs)
	if err != nil {
		return false // the op has no reference for these operands
	}
	if _, err := p.Resize(p.Rows + 3); err != nil {
		t.Errorf("operands %v, dimension %d: more rows: %v", with, dim, err)
		return true
	}
	one, err := p.Resize(1)
	if err != nil {
		t.Errorf("operands %v, dimension %d: %v", with, dim, err)
		return true
	}
	for row := range p.Rows {
		slice := map[string]*tensor.Tensor{}
		for name, x := range inputs {
			slice[name] = sliceOf(x, dim, row)
		}
		got, err := graph.Evaluate(one, slice)
		if err != nil {
			t.Errorf("operands %v, dimension %d: %v", with, dim, err)
			return true
		}
		for i, at := range p.Outputs() {
			name := g.Outputs[i].Name
			if err := equalAt(got[name], want[name], at, row); err != nil {
				t.Errorf("operands %v, dimension %d, row %d of %s: %v", with, dim, row, name, err)
				return true
			}
		}
	}
	return true
}

// equalAt compares a row with its place in all rows. dim is the dimension of the rows.
func equalAt(row, all *tensor.Tensor, dim, at int) error {
	for _, index := range indices(row.Shape) {
		where := slices.Clone(index)
		if dim >= 0 {
			where[dim] += at * row.Shape[dim]
		}
		if x, y := row.At(index...), all.At(where...); fmt.Sprint(x) != fmt.Sprint(y) {
			return fmt.Errorf("the element at %v is %v, not %v", where, x, y)
		}
	}
	return nil
}
