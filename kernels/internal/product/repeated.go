package product

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// repeatedSlices describes a value that repeats each slice of another value, the source, several times along one
// dimension. For example, a source with the slices s0 and s1 gives s0, s0, s1, s1. In attention with grouped queries,
// keys and values are repeated for several heads in this way. A product that reads each slice once needs a view of the
// source. This view has a dimension of size 1 (the unit dimension) after the repeated dimension.
type repeatedSlices struct {
	source       *graph.Value
	lacksUnitDim bool // whether the source lacks the unit dimension, so that addMatrices inserts it
	dim          int  // the repeated dimension of the value
	times        int  // the number of repetitions
	// order is the permutation that addMatrices applies to the source with the unit dimension. Dimension i after the
	// permutation is dimension order[i] before it. order is nil if dimensions are not permuted.
	order []int
	dtype tensor.DType // the dtype to which the elements of the source are converted; Invalid for none
}

// rewriteRepeated rewrites a product whose second operand repeats matrices as a product that reads each distinct matrix
// once. For example, let a [2, 8, 5, 6] operand be multiplied by a [2, 8, 6, 7] operand that repeats each of 2x2
// matrices four times. The new product has the operands [2, 2, 4, 5, 6] and [2, 2, 1, 6, 7].
func rewriteRepeated(parts *graph.Parts, call *graph.Call, repetition repeatedSlices) (rewrite graph.Rewrite,
	err error) {
	left, right := call.In[0], call.In[1]
	rank := len(right.Type().Shape)
	dim := repetition.dim
	isBatchDim := dim < rank-2
	if !isBatchDim || left.Type().Rank() != rank || !left.Type().Shape[dim].Same(right.Type().Shape[dim]) {
		return rewrite, nil
	}
	builder := compose.NewBuilder(parts, call)
	groups, matrices := repetition.addOperands(builder, left)
	if _, err = builder.Result(); err != nil { // the first error of the builder
		return rewrite, err
	}
	// Repeat adds the op of the replaced node with other operands.
	product, err := parts.Repeat(parts.ReplacedNode(), groups, matrices)
	if err != nil {
		return rewrite, err
	}
	out := builder.Add(view.Flatten, graph.Attrs{"start_dim": dim, "end_dim": dim + 1}, graph.ArgOf(product[0]))
	if repetition.joinsRows(left) {
		out = builder.Add(view.Unsqueeze, graph.Attrs{"dim": dim + 1}, out)
	}
	rewrite.Results, err = builder.Result(out)
	rewrite.Why = "repeated matrices are read in place"
	return rewrite, err
}

// addOperands adds views of both operands for a product by each distinct matrix. The view `matrices` has the distinct
// matrices. The view `groups` is the left operand with an additional dimension of size r.times. Along this dimension
// are the left matrices that are multiplied by the same matrix. If left matrices are single rows, the rows of a group
// form one matrix (joinsRows). Neither view then has a unit dimension: [2, 8, 1, 6] becomes [2, 2, 4, 6] for the
// matrices [2, 2, 6, 7].
func (r repeatedSlices) addOperands(builder *compose.Builder, left graph.Arg) (groups, matrices graph.Arg) {
	groups, matrices = left, r.addMatrices(builder)
	if r.joinsRows(left) {
		groups = builder.Add(view.Flatten, graph.Attrs{"start_dim": r.dim, "end_dim": r.dim + 1}, groups)
		matrices = builder.Add(view.Squeeze, graph.Attrs{"dim": []int{r.dim + 1}}, matrices)
	}
	return builder.Add(view.Unflatten, graph.Attrs{"dim": r.dim, "sizes": []int{-1, r.times}}, groups), matrices
}

// joinsRows reports whether the matrices of the left operand are single rows, and the repeated dimension is the last
// batch dimension. Rows that are multiplied by the same matrix are then adjacent.
func (r repeatedSlices) joinsRows(left graph.Arg) bool {
	leftType := left.Type()
	return r.dim == leftType.Rank()-3 && leftType.Shape[leftType.Rank()-2].Eq(sym.Of(1)).Holds()
}

// addMatrices converts the source if necessary, and adds up to two views of it. The first view inserts the unit
// dimension, and the second permutes the dimensions by order.
func (r repeatedSlices) addMatrices(builder *compose.Builder) graph.Arg {
	distinct := graph.ArgOf(r.source)
	if r.dtype != tensor.Invalid {
		distinct = builder.Convert(r.dtype, distinct)
	}
	if r.lacksUnitDim {
		distinct = builder.Add(view.Unsqueeze, graph.Attrs{"dim": r.sourceDim() + 1}, distinct)
	}
	if r.order != nil {
		distinct = builder.Add(view.Permute, graph.Attrs{"dims": r.order}, distinct)
	}
	return distinct
}

// sourceDim returns the dimension of the source that is repeated.
func (r repeatedSlices) sourceDim() int {
	if r.order != nil {
		return r.order[r.dim]
	}
	return r.dim
}

// findRepetition reports whether a value repeats another value, and describes the repetition. It recognizes three
// forms: copies of broadcast values, results of repeat_interleave, and concatenations of repeated parts. It also
// recognizes permutations and conversions of these forms. It follows at most depth nodes. Callers begin with
// maxChainLength.
func findRepetition(value *graph.Value, depth int) (r repeatedSlices, ok bool) {
	node := value.Node
	if node == nil || node.Op == nil || node.Op.ReadsStorage || depth == 0 {
		return r, false
	}
	if len(node.In) == 0 || node.In[0].Kind != graph.TensorArg {
		return r, false
	}
	source := node.In[0].Value
	hasSameDType := value.Type.DType == source.Type.DType
	switch {
	case node.Op.Permutes != nil && len(node.Out) == 1: // a permutation
		if r, ok = findRepetition(source, depth-1); ok {
			r.permute(node.Op.Permutes(node.Call()))
		}
		return r, ok
	case node.Op.Base() == index.RepeatInterleave && len(node.In) == 1: // the number of repetitions is an attribute
		return repetitionByInterleave(source, value)
	case slices.Contains([]*graph.Op{view.Cat, view.Concat, view.Concatenate}, node.Op.Base()):
		return repetitionByConcat(node, value, depth-1)
	case node.Op.Identity && value.Alias == nil && sameSizes(value.Type.Shape, source.Type.Shape):
		r, ok = findRepetition(source, depth-1) // a copy, or a conversion
		switch {
		case ok && !hasSameDType && r.dtype != tensor.Invalid: // a second conversion
			return r, false
		case ok && !hasSameDType:
			r.dtype = value.Type.DType
		}
		return r, ok
	case node.Op.Kind == graph.View && hasSameDType: // a view that merges the broadcast dimension
		return repetitionByBroadcast(source, value)
	}
	return r, false
}

// maxChainLength bounds the length of the chain of nodes that is searched for a repetition.
const maxChainLength = 6

// permute changes the description for a permutation of the value's dimensions: dimension i of the permuted value is
// dimension dims[i] of the value. For example, dims [0, 2, 1] with the repeated dimension 1 give the order [0, 3, 1, 2]
// and the repeated dimension 2.
func (r *repeatedSlices) permute(dims []int) {
	var order []int  // dims, with the unit dimension after the repeated dimension
	repeatedDim := 0 // the repeated dimension after the permutation
	for i, dim := range dims {
		switch {
		case dim == r.dim:
			repeatedDim = i
			order = append(order, dim, dim+1)
		case dim > r.dim:
			order = append(order, dim+1)
		default:
			order = append(order, dim)
		}
	}
	if earlier := r.order; earlier != nil {
		for i, dim := range order {
			order[i] = earlier[dim]
		}
	}
	r.dim, r.order = repeatedDim, order
}

// repetitionByBroadcast recognizes a value that is a view of another view, expanded. The value merges a broadcast
// dimension of expanded with the dimension before it: [2, 1, 6] is expanded to [2, 4, 6], which is viewed as [8, 6].
// Results of as_strided are rejected, because the sizes of such a view do not determine its elements.
func repetitionByBroadcast(expanded, value *graph.Value) (r repeatedSlices, ok bool) {
	node, source := expanded.Node, expanded.Alias
	isView := node != nil && !node.Op.ReadsStorage && source != nil && node.In[0].Value == source
	if !isView || expanded.Type.Rank() != value.Type.Rank()+1 {
		return r, false
	}
	shape := expanded.Type.Shape
	for dim := 1; dim < len(shape); dim++ { // the broadcast dimension
		times, isKnown := shape[dim].Known()
		stride, isStrideKnown := expanded.Type.Strides[dim].Known()
		if !isKnown || !isStrideKnown || times < 2 || stride != 0 {
			continue
		}
		merged := slices.Delete(slices.Clone(shape), dim, dim+1)
		merged[dim-1] = merged[dim-1].Mul(shape[dim])
		unrepeated := slices.Clone(shape)
		unrepeated[dim] = sym.Of(1)
		if sameSizes(merged, value.Type.Shape) && sameSizes(unrepeated, source.Type.Shape) {
			return repeatedSlices{source: source, dim: dim - 1, times: times}, true
		}
	}
	return r, false
}

// repetitionByInterleave recognizes repeat_interleave along one dimension with the same number of repetitions for all
// indexes.
func repetitionByInterleave(source, value *graph.Value) (r repeatedSlices, ok bool) {
	sizes, repeatedSizes := source.Type.Shape, value.Type.Shape
	if len(sizes) != len(repeatedSizes) {
		return r, false
	}
	r = repeatedSlices{source: source, lacksUnitDim: true, dim: -1} // -1: no repeated dimension is found yet
	for dim := range sizes {
		if sizes[dim].Same(repeatedSizes[dim]) {
			continue
		}
		size, isKnown := sizes[dim].Known()
		repeatedSize, isRepeatedKnown := repeatedSizes[dim].Known()
		if !isKnown || !isRepeatedKnown || r.dim >= 0 || size == 0 || repeatedSize%size != 0 {
			return r, false
		}
		r.dim, r.times = dim, repeatedSize/size
	}
	return r, r.dim >= 0 && r.times > 1
}

// repetitionByConcat recognizes a concatenation of parts that repeat the successive pieces of a value, the whole. For
// example, a node splits the whole into the pieces p0 and p1, and the parts are p0, p0, p0 and p1, p1, p1.
func repetitionByConcat(node *graph.Node, value *graph.Value, depth int) (r repeatedSlices, ok bool) {
	var whole *graph.Value
	for i, arg := range node.In {
		if arg.Kind != graph.TensorArg {
			return r, false
		}
		part, isRepetition := findRepetition(arg.Value, depth)
		if !isRepetition || part.order != nil || part.dtype != tensor.Invalid {
			return r, false
		}
		piece := part.repeatedPiece()
		if piece == nil || piece.Alias == nil || !isPieceOfSplit(piece, i, len(node.In)) {
			return r, false
		}
		if i == 0 {
			whole, r = piece.Alias, part
		}
		if piece.Alias != whole || part.dim != r.dim || part.times != r.times {
			return r, false
		}
	}
	repeated := slices.Clone(whole.Type.Shape)
	repeated[r.dim] = repeated[r.dim].Mul(sym.Of(r.times))
	r.source, r.lacksUnitDim = whole, true
	return r, len(node.In) > 1 && sameSizes(repeated, value.Type.Shape) && isSplitAlong(node.In[0], r)
}

// repeatedPiece returns the value that a part of a concatenation repeats. This is the source if the source lacks the
// unit dimension. Otherwise it is the value to which a view has added this dimension, or nil if no view has added it.
func (r repeatedSlices) repeatedPiece() *graph.Value {
	source := r.source
	if r.lacksUnitDim {
		return source
	}
	if source.Alias == nil || source.Node.Op.ReadsStorage {
		return nil
	}
	shape := slices.Delete(slices.Clone(source.Type.Shape), r.dim+1, r.dim+2)
	if !sameSizes(shape, source.Alias.Type.Shape) {
		return nil
	}
	return source.Alias
}

// isPieceOfSplit reports whether a value is result i of a node that has operands and exactly count results.
func isPieceOfSplit(value *graph.Value, i, count int) bool {
	node := value.Node
	return node != nil && len(node.In) > 0 && len(node.Out) == count && node.Out[i] == value
}

// isSplitAlong reports whether the source of r is split into pieces along the repeated dimension. firstPart repeats the
// first piece. It must have the sizes of the source in all other dimensions.
func isSplitAlong(firstPart graph.Arg, r repeatedSlices) bool {
	shape, whole := slices.Clone(firstPart.Type().Shape), slices.Clone(r.source.Type.Shape)
	shape[r.dim], whole[r.dim] = sym.Int{}, sym.Int{}
	return sameSizes(shape, whole)
}

// sameSizes reports whether two lists are known to have the same sizes, for all sizes for which the graph is inferred.
func sameSizes(a, b []sym.Int) bool {
	return slices.EqualFunc(a, b, func(x, y sym.Int) bool {
		same, isKnown := x.Eq(y).Known()
		return isKnown && same
	})
}
