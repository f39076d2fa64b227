package graph

import (
	"encoding/binary"
	"slices"
)

// A network repeats its layers, so most of its calls are equal but for their names and the data that they read. Nodes
// with such calls are alike: one kernel serves them all.

// maxAlikeTried is the maximum number of nodes with which [Graph.Alike] compares a node.
const maxAlikeTried = 16

// Alike returns, for each node, the index of the first node that is alike, which may be the node itself. Calls of alike
// nodes have the same op, attributes, implementation and walk, and equal types of operands and results, also if sizes
// are expressions. Constants that are not packed are the same values, unless the op is one of
// [Facts.ConstantsByAddress]. The same operands are equal to one another, and the same values are within others. Nodes
// that isOwn reports, and views, are like no other node; nil reports none.
//
// The functions of an op must not read more of the call than this when they make a kernel: not the names of values, and
// not the nodes that compute them.
func (g *Graph) Alike(isOwn func(i int) bool) []int32 {
	if g == nil {
		return nil
	}
	first, byKey := make([]int32, len(g.Nodes)), map[string][]int32{}
	var key []byte
	for i, n := range g.Nodes {
		first[i] = int32(i)
		if n.IsView() || isOwn != nil && isOwn(i) {
			continue
		}
		key = n.appendCallKey(key[:0])
		same := byKey[string(key)]
		if k := slices.IndexFunc(same, func(k int32) bool { return n.isLike(g.Nodes[k]) }); k >= 0 {
			first[i] = same[k]
		} else if len(same) < maxAlikeTried {
			byKey[string(key)] = append(same, int32(i))
		}
	}
	return first
}

// appendCallKey appends numbers that are equal for alike nodes.
func (n *Node) appendCallKey(key []byte) []byte {
	key = appendText(key, n.Op.Name)
	for i, arg := range n.In {
		switch key = append(key, byte(arg.Kind)); arg.Kind {
		case TensorArg:
			isInSameMemory := func(other Arg) bool {
				return other.Kind == TensorArg && other.Value.BufferOwner() == arg.Value.BufferOwner()
			}
			isSame := func(other Arg) bool { return other.Value == arg.Value }
			key = appendMeta(append(key, byte(arg.Value.Place())), arg.Meta())
			key = binary.AppendVarint(key, int64(i-slices.IndexFunc(n.In, isSame)))
			key = binary.AppendVarint(key, int64(i-slices.IndexFunc(n.In, isInSameMemory)))
		case NumberArg:
			key = appendNumber(key, arg.Number)
		}
	}
	key = append(key, '>')
	for _, v := range n.Out {
		key = appendMeta(key, v.Meta)
	}
	return key
}

// isLike reports whether nodes with equal keys are alike.
func (n *Node) isLike(other *Node) bool {
	if n.Op != other.Op || len(n.In) != len(other.In) || len(n.Out) != len(other.Out) ||
		n.Impl != other.Impl || n.Pin != other.Pin || !n.Walk.Equal(other.Walk) ||
		!slices.Equal(n.operandsInPlace(), other.operandsInPlace()) {
		return false
	}
	for i, arg := range n.In {
		if arg.Kind == TensorArg && !arg.Value.isReadLike(other.In[i].Value, n.Op.ConstantsByAddress) {
			return false
		}
	}
	for i, v := range n.Out {
		if other := other.Out[i]; (v.ContainedIn == nil) != (other.ContainedIn == nil) || !haveSameType(v, other) {
			return false
		}
	}
	if sized, ok := n.Attrs.(SizedAttributes); ok {
		return sized.Like(other.Attrs)
	}
	return n.Attrs == nil && other.Attrs == nil || SameAttrs(n, other)
}

// IsPlacedLike reports whether the operands and results of two nodes have the same layouts, and whether the same ones
// are within other values.
func (n *Node) IsPlacedLike(other *Node) bool {
	if n == nil || other == nil || len(n.In) != len(other.In) || len(n.Out) != len(other.Out) {
		return n == other
	}
	isSame := func(v, other *Value) bool {
		return v == other || v != nil && other != nil && (v.ContainedIn == nil) == (other.ContainedIn == nil) &&
			v.Meta.Offset == other.Meta.Offset && v.Meta.SameLayout(other.Meta)
	}
	return slices.EqualFunc(n.In, other.In, func(a, b Arg) bool { return isSame(a.Value, b.Value) }) &&
		slices.EqualFunc(n.Out, other.Out, isSame) && slices.Equal(n.operandsInPlace(), other.operandsInPlace())
}

// isReadLike reports whether a kernel that reads v can read other. byAddress means that it may have other elements if
// it is a constant.
func (v *Value) isReadLike(other *Value, byAddress bool) bool {
	switch {
	case v == other:
		return true
	case (v.Const == nil) != (other.Const == nil) || (v.Packed == nil) != (other.Packed == nil) || v.Pin != other.Pin:
		return false
	case v.Packed != nil:
		return v.Packed.Format == other.Packed.Format && v.Meta.DType == other.Meta.DType && v.Meta.SameLayout(other.Meta) &&
			v.Packed.Meta.SameLayout(other.Packed.Meta)
	case v.Const != nil && !byAddress:
		return false
	}
	narrow, otherNarrow := v.Const.Unwidened(), other.Const.Unwidened() // of products that read 16-bit floats
	isSame := (narrow == nil) == (otherNarrow == nil) && (narrow == nil || narrow.DType == otherNarrow.DType)
	return isSame && haveSameType(v, other)
}

// haveSameType reports whether values with equal metas have equal types.
func haveSameType(v, other *Value) bool {
	if _, known := v.Type.Meta(); known {
		_, known := other.Type.Meta()
		return known
	}
	return sameType(v.Type, other.Type)
}
