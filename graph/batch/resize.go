package batch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Resize returns the inferred graph for another number of rows. Resize changes attributes that contain sizes of
// results, and repeats constants that have a slice for each row. The graph of the proof is not changed. Both graphs
// share ops and the data of all other constants. For example, with 2 rows in dimension 0, Resize(3) changes the shape
// [2, 4] of a value to [3, 4], the attribute shape=[2, 4] of a reshape to [3, 4], and a constant [[1], [1]] to [[1],
// [1], [1]].
func (p *Proof) Resize(rows int) (*graph.Graph, error) {
	if p == nil || p.graph == nil {
		return nil, errors.New("the proof was not made by Follow")
	}
	if rows < 1 {
		return nil, fmt.Errorf("%d rows: want at least 1", rows)
	}
	g := p.graph.Clone()
	g.Sort() // an inferred graph is already sorted, so g.Nodes[i] remains the copy of p.graph.Nodes[i]
	for name, dim := range p.inputs {
		v := g.Value(name)
		if err := g.ResizeInput(v, dim, p.scaledSize(v.Meta.Shape[dim], rows)); err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
	}
	if err := p.repeatConstants(g, rows); err != nil {
		return nil, err
	}
	for i, n := range p.graph.Nodes {
		// SizesAttr names the attribute that lists the sizes of the result.
		if dim := p.Dim(n.Out[0]); n.Op.SizesAttr != "" && dim >= 0 && hasAttr(n, n.Op.SizesAttr) {
			shape := slices.Clone(n.Out[0].Meta.Shape)
			shape[dim] = p.scaledSize(shape[dim], rows)
			g.Nodes[i].SetAttr(n.Op.SizesAttr, shape)
		}
	}
	if err := errors.Join(g.Err(), g.Infer()); err != nil {
		return nil, err
	}
	return g, p.checkShapes(g, rows)
}

// repeatedConstant is a constant with equal slices for all rows, and the place of these rows in the constant.
type repeatedConstant struct {
	value *graph.Value
	place rowPlace
}

// repeatConstants replaces the constants of the resized graph g that have a slice for each row. g is a copy of the
// proof's graph.
func (p *Proof) repeatConstants(g *graph.Graph, rows int) error {
	replacements := map[repeatedConstant]*graph.Value{}
	for i, n := range p.graph.Nodes {
		resized := g.Nodes[i]
		for k, arg := range resized.In {
			place, ok := p.repeatedOperands[operand{n, k}]
			if !ok {
				continue
			}
			key := repeatedConstant{arg.Value, place}
			if replacements[key] == nil {
				t, err := withRows(arg.Value.Const, place, p.Rows, rows)
				if err != nil {
					return g.NodeError(resized, fmt.Errorf("its operand %q: %w", arg.Value.Name, err))
				}
				replacements[key] = g.Constant(g.UniqueName(arg.Value.Name+".rows"), t)
			}
			resized.In[k].Value = replacements[key]
		}
	}
	return nil
}

// scaledSize returns the size of a dimension for another number of rows.
func (p *Proof) scaledSize(size, rows int) int { return size / p.Rows * rows }

// checkShapes compares the shapes of the resized graph with the shapes that follow from the proof.
func (p *Proof) checkShapes(g *graph.Graph, rows int) error {
	for i, n := range p.graph.Nodes {
		for k, v := range n.Out {
			want := slices.Clone(v.Meta.Shape)
			if dim := p.Dim(v); dim >= 0 {
				want[dim] = p.scaledSize(want[dim], rows)
			}
			if got := g.Nodes[i].Out[k].Meta.Shape; !slices.Equal(got, want) {
				return g.NodeError(g.Nodes[i], fmt.Errorf("with %d rows, result %d has the shape %v instead of %v: an attribute "+
					"depends on the number of rows", rows, k, got, want))
			}
		}
	}
	return nil
}

// hasAttr reports whether the attribute is given for the node.
func hasAttr(n *graph.Node, name string) bool {
	for given := range n.AttrsAsGiven() {
		if given == name {
			return true
		}
	}
	return false
}

// equalRows reports whether all rows of a constant are equal. The dimension of the rows consists of place.blocks equal
// blocks, and each block has all rows: after a concatenation, 2 blocks of 3 rows with one slice each are r0 r1 r2 r0 r1
// r2. Numbers are compared as text, so that NaNs are equal, but 0 and -0 are not.
func equalRows(t *tensor.Tensor, place rowPlace, rows int) bool {
	dim, size := place.dim, t.Shape[place.dim]
	if size%(rows*place.blocks) != 0 || size == 0 {
		return false
	}
	if rows == 1 {
		return true
	}
	rowSlices := size / rows / place.blocks // slices of one row in one block
	blockSlices := rowSlices * rows
	isSame := true
	eachIndex(t.Shape, func(_ int, index []int) bool {
		// Compare with the corresponding element of the first row of the block.
		slice := index[dim]
		element := t.At(index...)
		index[dim] = slice/blockSlices*blockSlices + slice%rowSlices
		firstRowElement := t.At(index...)
		index[dim] = slice
		isSame = fmt.Sprint(element) == fmt.Sprint(firstRowElement)
		return isSame
	})
	return isSame
}

// withRows returns a constant with equal rows that differs from t in the number of rows.
func withRows(t *tensor.Tensor, place rowPlace, rows, newRows int) (*tensor.Tensor, error) {
	dim := place.dim
	rowSlices := t.Shape[dim] / rows / place.blocks // slices of one row in one block
	shape := slices.Clone(t.Shape)
	shape[dim] = rowSlices * newRows * place.blocks
	meta := tensor.New(t.DType, shape...)
	if err := meta.Check(); err != nil {
		return nil, err
	}
	out := tensor.Empty(meta)
	eachIndex(shape, func(i int, index []int) bool {
		// Each new row is a copy of the first old row of its block.
		slice := index[dim]
		block := slice / (rowSlices * newRows)
		index[dim] = block*(rowSlices*rows) + slice%rowSlices
		out.SetFlat(i, t.At(index...))
		index[dim] = slice
		return true
	})
	return out, nil
}

// eachIndex calls f for each element of a shape in row-major order, until f returns false. i counts the elements, and
// index has the index of the element in each dimension. f may change index, but must restore it.
func eachIndex(shape []int, f func(i int, index []int) bool) {
	index := make([]int, len(shape))
	for i := range tensor.Numel(shape) {
		if !f(i, index) {
			return
		}
		for dim := len(shape) - 1; dim >= 0; dim-- {
			if index[dim]++; index[dim] < shape[dim] {
				break
			}
			index[dim] = 0
		}
	}
}
