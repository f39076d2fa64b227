package fusion

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// This file checks the nodes of a candidate attention and collects them as parts of one node. An attention has three
// steps. A product of query and key computes the scores. A row program processes the rows of the scores, for example by
// a softmax. Last, a product with the value computes the result. The batch of a matrix product is its dimensions before
// the last two. For example, a model may reshape between the parts (b samples, h heads, m queries, n keys):
//
//	scores [b*h, m, n] = query [b*h, m, k] * key [b*h, k, n]
//	masked [b, h, m, n] = reshape(scores) + mask [b, 1, 1, n]
//	result [b, h, m, v] = softmax(masked) * value [b, h, n, v]
//
// The batch of the fused node is [b, h] (finestBatch), and its kernel reads query as [b, h, m, k] (productView).
//
// A nodeBuilder builds the fused node. Its field node is this node, fusion has the node's attributes, and producers
// maps each value to the part that computes it. A [FusedArg] with negative Part is operand Index of the fused node.

// addAttention adds the parts of an attention: see [Fuser.CheckAttention]. It sets the operands query, key and value,
// adds the parts in order, and records for each operand the shape in which the kernel views it. Last, it marks the
// columns of the scores as the dimension that the row program folds (reduces). isReadOutside reports whether a value is
// read outside of the attention.
//
// The batch may have different shapes in different parts, such as [b*h] and [b, h]. The kernel uses the shape of
// finestBatch: merging dimensions of this shape gives the shape in each part.
func (builder *nodeBuilder) addAttention(fuser *Fuser, parts []*graph.Node,
	isReadOutside func(*graph.Value) bool) error {
	first, last := parts[0], parts[len(parts)-1]
	if err := checkProducts(parts); err != nil {
		return err
	}
	shapes, names := make([][]int, len(parts)), make([]string, len(parts))
	for i, part := range parts {
		if len(part.Out) != 1 {
			return fmt.Errorf("%q has several results", part.Name)
		}
		shapes[i], names[i] = part.Out[0].Meta.Shape, part.Name
	}
	batch, err := finestBatch(shapes, names)
	if err != nil {
		return err
	}
	query, key, value := first.In[0], first.In[1], last.In[1]
	builder.node.Op, builder.node.In = attentionOp(last.Op), []graph.Arg{query, key, value}
	builder.fusion.AnchorOperands = productOperandCount // the row program reads the scores and the operands after these
	scores, weights := graph.ArgOf(first.Out[0]), last.In[0]
	if err := checkProductOperands([]graph.Arg{query, key, value, scores, weights}); err != nil {
		return err
	}
	if err := builder.addAttentionParts(fuser, parts, isReadOutside); err != nil {
		return err
	}
	return builder.fusion.setViews(builder.node.In, shapes, batch)
}

// setViews sets ViewShapes and Mask of an attention for the given operands, the shapes of the results of parts, and
// their finestBatch.
func (f *Fusion) setViews(in []graph.Arg, shapes [][]int, batch []int) error {
	f.ViewShapes = make([][]int, len(in)+1)
	scores, result := shapes[0], shapes[len(shapes)-1]
	// The products broadcast query and key to the batch of the scores, and value to the batch of the result.
	for i, broadcastTo := range [][]int{scores, scores, result} {
		viewShape, ok := productView(in[i].Meta().Shape, broadcastTo, batch)
		if err := f.recordView(in, i, viewShape, ok); err != nil {
			return err
		}
	}
	batchAndRows := append(slices.Clone(batch), scores[len(scores)-2])
	for i := range f.Parts[1 : len(f.Parts)-1] {
		part := &f.Parts[i+1]
		broadcastTo := shapes[i+1]
		if first := part.In[0]; part.folds && first.Part >= 0 {
			broadcastTo = shapes[first.Part]
		} else if part.folds {
			broadcastTo = in[first.Index].Meta().Shape
		}
		for _, arg := range part.In {
			if arg.Part >= 0 || arg.Number.IsSet() {
				continue
			}
			viewShape, ok := rowView(in[arg.Index].Meta().Shape, broadcastTo, batchAndRows)
			if err := f.recordView(in, arg.Index, viewShape, ok); err != nil {
				return err
			}
		}
	}
	// After the views of the operands, ViewShapes has the view of the result.
	f.ViewShapes[len(in)] = slices.Concat(batch, result[len(result)-2:])
	f.Mask = make([]bool, len(batch)+2) // batch, rows, columns of the scores
	columns := len(batch) + 1
	f.Mask[columns] = true
	return nil
}

// checkProducts returns an error if the first and the last part are not the two products of an attention, or if
// [Attends] rejects their ops.
func checkProducts(parts []*graph.Node) error {
	first, last := parts[0], parts[len(parts)-1]
	switch {
	case !loops.CodeAvailable():
		return errors.New("loops have no machine code")
	case !Attends(first.Op) || !Attends(last.Op) || len(first.Out) != 1 || len(first.In) != 2 || len(last.In) != 2:
		return errors.New("the nodes do not begin and end with products of matrices")
	// A part computes the value operand of the last product.
	case slices.ContainsFunc(parts, func(part *graph.Node) bool { return slices.Contains(part.Out, last.In[1].Value) }):
		return fmt.Errorf("needs all of %q before the last product begins", last.In[1].Value.Name)
	}
	return nil
}

// checkProductOperands returns an error if values (query, key, value, scores, weights) do not suit the products of an
// attention.
func checkProductOperands(values []graph.Arg) error {
	dtype := values[0].Meta().DType
	for i, arg := range values {
		meta := arg.Meta()
		switch {
		case arg.Kind != graph.TensorArg || meta.Rank() < 2:
			return errors.New("an operand of a product is not a matrix")
		case meta.Numel() == 0:
			return errors.New("a matrix in it has no elements")
		case meta.DType != dtype || dtype != tensor.Float32 && dtype != tensor.Float64:
			return fmt.Errorf("operands of its products have dtype %v: want float32 or float64, the same for all",
				meta.DType)
		case i < productOperandCount && arg.Value.Const != nil:
			return fmt.Errorf("%q is a constant: only a separate product can pack it before the runs", arg.Value.Name)
		}
	}
	return nil
}

// finestBatch returns the shape of the batch of the attention, without sizes of 1. Parts may split and join dimensions
// of the batch. The batch of every part is a view of the result. Among such shapes, the result has the fewest
// dimensions. For example, the batches [6, 4] and [2, 12] give [2, 3, 4]. A part may also divide the rows of a matrix
// into several dimensions, which do not belong to the batch.
//
// The arguments are the shapes and names of the results of the parts.
func finestBatch(shapes [][]int, names []string) ([]int, error) {
	scores := shapes[0]
	if len(scores) < 2 {
		return nil, errors.New("its first product is not of two matrices")
	}
	rows, numRows := scores[len(scores)-2], tensor.Numel(scores[:len(scores)-1])
	if numRows == 0 {
		return nil, errors.New("the batch is empty")
	}
	// rowCounts has, for each batch dimension of each part, the number of rows in this dimension and all later ones.
	// The sizes of the result are the quotients of consecutive sorted counts. For [6, 4] and [2, 12], the counts are
	// rows times 1, 4, 12 and 24.
	rowCounts := []int{rows}
	for i, shape := range shapes {
		leading := shape[:max(0, len(shape)-1)] // the batch and the rows
		if tensor.Numel(leading) != numRows {
			return nil, fmt.Errorf("%q has another number of rows than the scores", names[i])
		}
		isLastProduct := i == len(shapes)-1
		if isLastProduct && (len(leading) == 0 || leading[len(leading)-1] != rows) {
			return nil, fmt.Errorf("the matrices of %q have another number of rows than the scores", names[i])
		}
		spannedRows := 1
		for _, size := range slices.Backward(leading) {
			spannedRows *= size
			if spannedRows > rows {
				rowCounts = append(rowCounts, spannedRows)
			}
		}
	}
	sorted.Ints(rowCounts)
	rowCounts = slices.Compact(rowCounts)
	var batch []int
	for i := len(rowCounts) - 1; i > 0; i-- {
		if rowCounts[i]%rowCounts[i-1] != 0 {
			return nil, errors.New("no shape has the batches of all parts as views")
		}
		batch = append(batch, rowCounts[i]/rowCounts[i-1])
	}
	return batch, nil
}

// recordView records `viewShape`: the attention reads operand k in this shape. It returns an error if ok is false, or
// if two parts require different shapes.
func (f *Fusion) recordView(in []graph.Arg, k int, viewShape []int, ok bool) error {
	known := f.ViewShapes[k]
	if !ok || known != nil && !slices.Equal(known, viewShape) {
		return fmt.Errorf("%q has other dimensions than the scores", in[k].Value.Name)
	}
	f.ViewShapes[k] = viewShape
	return nil
}

// addAttentionParts adds the two products and the nodes between them as parts. It returns an error if a node cannot be
// between them, or if none of these nodes folds rows.
func (builder *nodeBuilder) addAttentionParts(fuser *Fuser, parts []*graph.Node,
	isReadOutside func(*graph.Value) bool) error {
	scores, hasFold := parts[0].Out[0].Meta.Shape, false
	isChannelVector := func(int) bool { return false }
	for i, part := range parts {
		if i == 0 || i == len(parts)-1 {
			builder.addProduct(i, part, isReadOutside)
			continue
		}
		folds, err := fuser.checkBetween(part, scores)
		if err != nil {
			return fmt.Errorf("%q %w", part.Name, err)
		}
		if err := builder.addPart(i, part, isChannelVector, isReadOutside); err != nil {
			return err
		}
		added := &builder.fusion.Parts[i]
		added.folds, added.reshapes, hasFold = folds, reshapesBatch(part), hasFold || folds
		if added.reshapes && added.In[0].Part < 0 {
			return fmt.Errorf("%q is not a view of a result of the first product", part.Name)
		}
	}
	weights := builder.fusion.Parts[len(parts)-1].In[0]
	if weights.Part < 0 || !hasFold { // Part is negative if no part computes the weights
		return errors.New("no node between the products folds rows")
	}
	return nil
}

// addProduct adds the first part (i is 0: the product of query and key) or the last part (the product with the values).
func (builder *nodeBuilder) addProduct(i int, part *graph.Node, isReadOutside func(*graph.Value) bool) {
	operands := []FusedArg{{Part: -1, Index: 0}, {Part: -1, Index: 1}} // query and key
	if i > 0 {
		operands[0] = FusedArg{Part: -1, Index: -1} // absent, unless a part computes the weights
		if producer, isInner := builder.producers[part.In[0].Value]; isInner {
			operands[0] = producer
		}
		operands[1].Index = 2 // value
	}
	builder.recordOutputs(i, part, isReadOutside)
	builder.fusion.Parts = append(builder.fusion.Parts,
		FusedPart{Name: part.Name, Op: part.Op, Attrs: part.Attrs, In: operands, ResultCount: 1})
}

// checkBetween returns an error if a node cannot be between the products of an attention. scores is the shape of the
// first product's result. foldsRows is true if the node folds rows.
func (f *Fuser) checkBetween(node *graph.Node, scores []int) (foldsRows bool, err error) {
	if len(node.Out) != 1 || !fitsScores(node.Out[0].Meta.Shape, scores) {
		return false, errors.New("has a result that is not rows of scores")
	}
	if reshapesBatch(node) {
		return false, nil
	}
	// The node alone may be a row program, such as a softmax.
	if rows := f.Rows(node); rows != nil && rows.Code.Compilable() {
		shape := node.In[0].Meta().Shape
		rank := len(shape)
		// An attention has neither ChannelGroups, which divides dimension 1, nor Channels, which marks operands along
		// dimension 1.
		hasChannels := rows.ChannelGroups != 0 || slices.Contains(rows.Channels, true)
		foldsOnlyLastDim := !hasChannels && len(rows.Mask) == rank && rows.Mask[rank-1] &&
			!slices.Contains(rows.Mask[:rank-1], true)
		if !foldsOnlyLastDim || !rows.Fits(shape) || len(node.Out[0].Meta.Shape) != rank {
			return false, errors.New("folds other dimensions than rows of scores")
		}
		return true, nil
	}
	// The node must be an expression over elements.
	code, err := f.Expression(node)
	switch {
	case err != nil:
		return false, err
	case !code.Compilable():
		return false, errors.New("calls functions without machine code")
	}
	return false, nil
}

// fitsScores reports whether a value of the given shape has an element for each score, or an element for each row of
// scores. The dimensions of batch and rows may be split or joined.
func fitsScores(shape, scores []int) bool {
	rank, scoresRank := len(shape), len(scores)
	if rank < 2 || scoresRank < 2 || shape[rank-1] != scores[scoresRank-1] && shape[rank-1] != 1 {
		return false
	}
	return tensor.Numel(shape[:rank-1]) == tensor.Numel(scores[:scoresRank-1])
}

// reshapesBatch reports whether a node is a view that changes only the shape of the batch. The rows of its result are
// the rows of its operand, in the same order.
func reshapesBatch(node *graph.Node) bool {
	if len(node.Out) != 1 || node.Out[0].Alias == nil || len(node.In) == 0 || node.In[0].Kind != graph.TensorArg {
		return false
	}
	operand, result := node.In[0].Meta(), node.Out[0].Meta
	operandRank, resultRank := operand.Rank(), result.Rank()
	return operand.IsContiguous() && result.IsContiguous() && operand.Numel() == result.Numel() &&
		operand.Offset == result.Offset && operandRank >= 2 && resultRank >= 2 &&
		operand.Shape[operandRank-1] == result.Shape[resultRank-1]
}

// productView returns the shape of a view of a product's operand: the view has the given batch, with size 1 in
// broadcast dimensions. shape is the shape of the operand. broadcastTo is the shape to which the product broadcasts the
// operand. productView returns false if there is no such view.
func productView(shape, broadcastTo, batch []int) ([]int, bool) {
	rowDim, columnDim := len(broadcastTo)-2, len(broadcastTo)-1
	batchDims, ok := leadingView(shape, broadcastTo, rowDim, batch)
	return append(batchDims, sizeIn(shape, broadcastTo, rowDim), sizeIn(shape, broadcastTo, columnDim)), ok
}

// rowView returns the shape of a view as productView does, for an operand of the row program. batchAndRows has the
// shape of the batch, followed by the number of rows of a matrix.
func rowView(shape, broadcastTo, batchAndRows []int) ([]int, bool) {
	columnDim := len(broadcastTo) - 1
	leadingDims, ok := leadingView(shape, broadcastTo, columnDim, batchAndRows)
	return append(leadingDims, sizeIn(shape, broadcastTo, columnDim)), ok
}

// sizeIn returns the size of a value of the given shape in the dimension that is broadcast to dimension dim of
// broadcastTo.
func sizeIn(shape, broadcastTo []int, dim int) int {
	if dim -= len(broadcastTo) - len(shape); dim < 0 {
		return 1
	}
	return shape[dim]
}

// leadingView returns the shape of a view of a value with the given shape that is broadcast to broadcastTo. In the
// view, the dimensions `leading` replace the first leadingRank dimensions of broadcastTo. Broadcast dimensions have
// size 1. For example, a value of shape [6, 1] that is broadcast to [6, 4] has the view [2, 3, 1] if leading is [2, 3,
// 4]. leadingView matches the factors of broadcastTo's sizes with the factors of leading, from the last dimension to
// the first. In the example, it matches 4 with 4, and 6 with 3 and then 2. It returns false if the factors do not
// match, or if one dimension of leading would be broadcast only in part.
func leadingView(shape, broadcastTo []int, leadingRank int, leading []int) ([]int, bool) {
	if len(shape) > len(broadcastTo) {
		return nil, false
	}
	leadingDim, unmatched := len(leading), 1 // unmatched is the factor of leading[leadingDim] that is not yet matched
	isMatched := make([]bool, len(leading))  // whether a factor of the dimension is matched
	viewShape := slices.Repeat([]int{1}, len(leading))
	for dim := leadingRank - 1; dim >= 0; dim-- {
		size := sizeIn(shape, broadcastTo, dim) // of the value; 1 if dim is broadcast
		if size != 1 && size != broadcastTo[dim] {
			return nil, false
		}
		for remaining := broadcastTo[dim]; remaining > 1; { // the factor of broadcastTo[dim] that is not yet matched
			if unmatched == 1 {
				leadingDim--
				if leadingDim < 0 {
					return nil, false
				}
				unmatched = leading[leadingDim]
			}
			factor := min(remaining, unmatched)
			mixesBroadcast := isMatched[leadingDim] && (size != 1) != (viewShape[leadingDim] != 1)
			if remaining%factor != 0 || unmatched%factor != 0 || mixesBroadcast {
				return nil, false
			}
			isMatched[leadingDim] = true
			if size != 1 {
				viewShape[leadingDim] = leading[leadingDim]
			}
			remaining, unmatched = remaining/factor, unmatched/factor
		}
	}
	return viewShape, true
}
