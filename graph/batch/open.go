package batch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// FollowOpen is [Follow] for a graph whose number of rows is open. other is the same graph with another number of rows.
// FollowOpen rejects a graph in which elements or attributes other than sizes depend on the number of rows, for example
// arange(rows). If the number of rows is a symbol in g, expressions with this symbol are checked for 1 to [MaxOpenRows]
// rows. A value that is repeated for each row, such as zeros or an expanded constant, has rows, too.
func FollowOpen(g, other *graph.Graph, inputs map[string]int) (*Proof, error) {
	proof, err := newProof(g, inputs)
	if err != nil {
		return nil, err
	}
	otherProof, err := newProof(other, inputs)
	if err != nil {
		return nil, err
	}
	if otherProof.Rows == proof.Rows {
		return nil, fmt.Errorf("both graphs have %d rows", proof.Rows)
	}
	if n, err := proof.setOthers(g.Nodes, other.Nodes, otherProof.Rows); err != nil {
		return nil, g.NodeError(n, err)
	}
	for name, dim := range inputs {
		if dims := g.Value(name).Dims; dim < len(dims) {
			proof.symbol = dims[dim].Symbol
		}
	}
	if err := proof.followGraph(); err != nil {
		return nil, err
	}
	return proof, nil
}

// setOthers sets others and otherRows. The lists have the nodes of both graphs. If the lists do not correspond, it
// returns the first node that differs.
func (p *Proof) setOthers(nodes, otherNodes []*graph.Node, otherRows int) (*graph.Node, error) {
	p.others, p.otherRows = map[*graph.Node]*graph.Node{}, otherRows
	for i, n := range nodes {
		if len(nodes) != len(otherNodes) || n.Op != otherNodes[i].Op || len(n.Out) != len(otherNodes[i].Out) {
			return n, fmt.Errorf("the graph for %d rows has other nodes than for %d rows", otherRows, p.Rows)
		}
		if !slices.EqualFunc(n.In, otherNodes[i].In, sameOperand) {
			return n, errors.New("an operand depends on the number of rows")
		}
		p.others[n] = otherNodes[i]
	}
	return nil, nil
}

// sameOperand reports whether the operands of two corresponding nodes are the same number, or values with the same name
// and, if they are constant, with the same elements.
func sameOperand(first, second graph.Arg) bool {
	if first.Kind != second.Kind || first.Number != second.Number {
		return false
	}
	if first.Kind != graph.TensorArg {
		return true
	}
	if first.Value.Name != second.Value.Name {
		return false
	}
	a, b := first.Value.Const, second.Value.Const
	if a == b {
		return true
	}
	isSame := a != nil && b != nil && a.DType == b.DType && slices.Equal(a.Shape, b.Shape)
	if isSame {
		eachIndex(a.Shape, func(_ int, index []int) bool {
			isSame = fmt.Sprint(a.At(index...)) == fmt.Sprint(b.At(index...))
			return isSame
		})
	}
	return isSame
}

// checkAttrs returns an error if an attribute of a node, except the sizes of the results, depends on the number of
// rows. other is the node for another number of rows, or nil.
func (p *Proof) checkAttrs(n, other *graph.Node) error {
	if other != nil && !graph.SameAttrs(n, other, n.Op.SizesAttr) {
		return errors.New("an attribute depends on the number of rows")
	}
	if p.symbol == "" {
		return nil
	}
	for name, given := range n.AttrsAsGiven() {
		rejected := ""
		if containsText(given, func(text string) bool {
			rejected = text
			use := p.useOfSymbol(text)
			return use == asOtherValue || use == asFactor && name != n.Op.SizesAttr
		}) {
			return fmt.Errorf("attribute %q depends on the number of rows: %s", name, rejected)
		}
	}
	return nil
}

// containsText is [graph.ContainsText]. It also visits the attributes of the nodes of a graph that is an attribute.
func containsText(given any, match func(text string) bool) bool {
	body, isGraph := given.(*graph.Graph)
	if !isGraph {
		return graph.ContainsText(given, match)
	}
	return slices.ContainsFunc(body.Nodes, func(n *graph.Node) bool {
		for _, inner := range n.AttrsAsGiven() {
			if containsText(inner, match) {
				return true
			}
		}
		return false
	})
}

// symbolUse is the dependence of an expression on the symbol of the number of rows.
type symbolUse uint8

const (
	unused       symbolUse = iota // the expression has the same value for all numbers of rows
	asFactor                      // the value is a multiple of the number of rows
	asOtherValue                  // any other dependence, and conditions
)

// MaxOpenRows is the maximum number of rows for which [FollowOpen] checks expressions.
const MaxOpenRows = 1024

// useOfSymbol evaluates a text for 1 to MaxOpenRows rows, if it is an expression or a condition with the symbol. The
// other symbols have several sizes, which are arbitrary.
func (p *Proof) useOfSymbol(text string) symbolUse {
	if use, ok := p.uses[text]; ok {
		return use
	}
	if p.uses == nil {
		p.uses = map[string]symbolUse{}
	}
	use := unused
	if graph.TextDependsOn(text, p.symbol) {
		use = max(p.useFor(text, 32), p.useFor(text, 96), p.useFor(text, 4096))
	}
	p.uses[text] = use
	return use
}

// useFor is useOfSymbol with the given size for all other symbols.
func (p *Proof) useFor(text string, otherSize int) symbolUse {
	isConstant, isMultiple, valueForOne := true, true, 0
	for rows := 1; rows <= MaxOpenRows; rows++ {
		size, err := sym.Parse(text, func(name string) (sym.Int, bool) {
			if name == p.symbol {
				return sym.Of(rows), true
			}
			return sym.Of(otherSize), true
		})
		value, isKnown := size.Known()
		if err != nil || !isKnown {
			return asOtherValue
		}
		if rows == 1 {
			valueForOne = value
		}
		isConstant = isConstant && value == valueForOne
		isMultiple = isMultiple && value == valueForOne*rows
	}
	switch {
	case isConstant:
		return unused
	case isMultiple:
		return asFactor
	}
	return asOtherValue
}

// placeRepeated sets the places of the results of a node whose operands have no rows. A result has rows if its shape
// depends on the number of rows. These rows must be equal. other is the node for another number of rows, or nil.
func (p *Proof) placeRepeated(n, other *graph.Node) error {
	if other == nil {
		return nil
	}
	for i, v := range n.Out {
		shape, otherShape := v.Meta.Shape, other.Out[i].Meta.Shape
		if slices.Equal(shape, otherShape) {
			continue
		}
		dim := 0
		for dim < len(shape) && !p.scales(shape, otherShape, rowPlace{dim, 1}) {
			dim++
		}
		if dim == len(shape) || !repeatsSlice(n, i, dim) {
			return p.shapeError(v, other.Out[i])
		}
		p.places[v] = rowPlace{dim, 1}
	}
	return nil
}

// repeatsSlice reports whether all slices of a result along a dimension are equal: the result is a view that repeats
// one slice, or the result of an op without operands for which the dimension is a parallel loop.
func repeatsSlice(n *graph.Node, result, dim int) bool {
	if n.Out[result].Meta.Strides[dim] == 0 {
		return true
	}
	isLoop := func(loop graph.Parallel) bool { return loop.ResultDims[result] == dim }
	return len(n.In) == 0 && slices.ContainsFunc(n.Op.ParallelLoops(n.Call()), isLoop)
}

// scales reports whether otherShape is the shape for otherRows rows. shape is the shape for p.Rows rows, which are at
// the given place.
func (p *Proof) scales(shape, otherShape []int, place rowPlace) bool {
	if place == noRows {
		return slices.Equal(shape, otherShape)
	}
	scaled := slices.Clone(shape)
	scaled[place.dim] = p.scaledSize(shape[place.dim], p.otherRows)
	return shape[place.dim]%p.Rows == 0 && slices.Equal(scaled, otherShape)
}

// shapeError returns the error for a result that must not depend on the number of rows as it does.
func (p *Proof) shapeError(v, other *graph.Value) error {
	return fmt.Errorf("the shape of its result depends on the number of rows: %v for %d rows, %v for %d rows",
		v.Meta.Shape, p.Rows, other.Meta.Shape, p.otherRows)
}

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
