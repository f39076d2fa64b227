package batch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// FollowOpen is [Follow] for a graph whose number of rows is open. other is the same graph with another number of rows.
// FollowOpen also proves that only sizes depend on the number of rows: for example, it rejects a graph that creates
// arange(rows). A value that is repeated for each row, such as zeros or an expanded constant, has rows, too.
func FollowOpen(g, other *graph.Graph, inputs map[string]int) (*Proof, error) {
	proof, err := newProof(g, inputs)
	if err != nil {
		return nil, err
	}
	otherProof, err := newProof(other, inputs)
	if err != nil {
		return nil, err
	}
	if n, err := proof.setOthers(g.Nodes, other.Nodes, otherProof.Rows); err != nil {
		return nil, g.NodeError(n, err)
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
		if !slices.EqualFunc(n.In, otherNodes[i].In, sameConstants) {
			return n, errors.New("a constant operand depends on the number of rows")
		}
		p.others[n] = otherNodes[i]
	}
	return nil, nil
}

// sameConstants reports whether two operands are the same number or have the same elements, if they are constant.
func sameConstants(first, second graph.Arg) bool {
	if first.Kind != second.Kind || first.Number != second.Number {
		return false
	}
	if first.Kind != graph.TensorArg || first.Value.Const == second.Value.Const {
		return true
	}
	a, b := first.Value.Const, second.Value.Const
	isSame := a != nil && b != nil && a.DType == b.DType && slices.Equal(a.Shape, b.Shape)
	if isSame {
		eachIndex(a.Shape, func(_ int, index []int) bool {
			isSame = fmt.Sprint(a.At(index...)) == fmt.Sprint(b.At(index...))
			return isSame
		})
	}
	return isSame
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
// one slice, or a parallel loop computes all slices from the same operands.
func repeatsSlice(n *graph.Node, result, dim int) bool {
	if n.Out[result].Meta.Strides[dim] == 0 {
		return true
	}
	return slices.ContainsFunc(n.Op.ParallelLoops(n.Call()), func(loop graph.Parallel) bool {
		dividesOperand := func(operandDim int) bool { return operandDim != graph.Whole }
		return loop.ResultDims[result] == dim && !slices.ContainsFunc(loop.OperandDims, dividesOperand)
	})
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
