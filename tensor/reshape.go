package tensor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/sym"
)

// This file holds the views that change sizes: view, expand, as_strided and unfold. A condition on symbolic sizes is
// decided by [sym.Bool.Holds], which may record a guard: the sizes for which the decision is valid. sym.Int{} is the
// size 0.

// View returns t with another shape and the same number of elements (Tensor.view). One size may be -1. View fails if a
// copy would be necessary.
func (t Type) View(size []sym.Int) (Type, error) {
	out, ok, err := t.Reshaped(size)
	if err == nil && !ok {
		err = errors.New("view size is not compatible with input tensor's size and stride (at least one dimension " +
			"spans across two contiguous subspaces). Use .reshape(...) instead.")
	}
	return out, err
}

// Reshaped returns a view of t with the given shape, and whether such a view exists. One of the sizes may be -1.
func (t Type) Reshaped(size []sym.Int) (Type, bool, error) {
	if err := t.fastCheck(); err != nil {
		return Type{}, false, err
	}
	inferredDim, inferredSize, err := inferSize(size, t.Numel())
	if err != nil {
		return Type{}, false, err
	}
	var strides []sym.Int
	if inferredDim < 0 {
		strides = make([]sym.Int, len(size))
	} else {
		given := size
		size, strides = newShapeAndStrides(len(given))
		for d := range size {
			size[d] = given[d]
		}
		size[inferredDim] = inferredSize
	}
	if !t.reshapeStrides(strides, size) {
		return Type{}, false, nil
	}
	out, err := Type{DType: t.DType, Shape: size, Strides: strides, Offset: t.Offset}.checked()
	return out, true, err
}

// InferSize returns shape with a size -1 replaced, so that the product of the sizes is numel (at::infer_size). Without
// a -1 it returns shape itself. The errors are PyTorch's.
func InferSize(shape []sym.Int, numel sym.Int) ([]sym.Int, error) {
	inferredDim, size, err := inferSize(shape, numel)
	if err != nil || inferredDim < 0 {
		return shape, err
	}
	return withSize(shape, inferredDim, size), nil
}

// inferSize returns the position of the -1 in a shape, and the size that replaces the -1. If there is no -1, the
// position is -1 and the size has no meaning.
func inferSize(shape []sym.Int, numel sym.Int) (inferredDim int, size sym.Int, err error) {
	if inferredDim, size, ok := inferNumber(shape, numel); ok {
		return inferredDim, size, nil
	}
	product := sym.Of(1) // of the other sizes
	inferredDim = -1
	for dim, size := range shape {
		n, known := size.Known()
		switch {
		case known && n == -1 && inferredDim >= 0:
			return -1, size, errors.New("only one dimension can be inferred")
		case known && n == -1:
			inferredDim = dim
		case size.Lt(sym.Int{}).Holds():
			return -1, size, fmt.Errorf("invalid shape dimension %v", size)
		default:
			product = mulSizes(product, size)
		}
	}
	switch {
	case numel.Lt(sym.Int{}).Holds():
		return -1, numel, fmt.Errorf("a value cannot have %v elements", numel)
	case inferredDim < 0 && (product.Same(numel) || product.Eq(numel).Holds()):
		return -1, numel, nil
	case inferredDim < 0:
		// The numbers of elements differ. The error after the switch says so.
	case equals(product, 0) && equals(numel, 0):
		return -1, numel, fmt.Errorf("cannot reshape tensor of 0 elements into shape %s because the unspecified dimension "+
			"size -1 can be any value and is ambiguous", Sizes(shape))
	case !equals(product, 0) && equals(numel.Mod(product), 0):
		return inferredDim, numel.Div(product), nil
	}
	return -1, numel, fmt.Errorf("shape '%s' is invalid for input of size %v", Sizes(shape), numel)
}

// inferNumber is inferSize in machine integers, for the common case: all sizes are numbers and valid. In other
// cases, ok is false.
func inferNumber(shape []sym.Int, numel sym.Int) (inferredDim int, size sym.Int, ok bool) {
	count, ok := numel.Known()
	if !ok || count <= 0 {
		return -1, size, false
	}
	product := 1
	inferredDim = -1
	for dim := range shape {
		switch n, known := shape[dim].Known(); {
		case known && n > 0 && n <= count/product: // product*n <= count, so the product does not overflow
			product *= n
		case known && n == -1 && inferredDim < 0:
			inferredDim = dim
		default:
			return -1, size, false
		}
	}
	if inferredDim < 0 {
		return -1, size, product == count
	}
	quotient := count / product
	return inferredDim, sym.Of(quotient), quotient*product == count
}

// ReshapeStrides returns the strides of a view of t with the given shape, and whether such a view exists
// (at::detail::computeStride). shape must have the same number of elements as t, and no -1 ([InferSize]). If t has no
// elements, a shape equal to t's shape keeps the strides. For any other shape the strides are row-major.
//
// For example, let t have the shape (2,3,4) and the strides (24,4,1): it consists of the first 3 rows of each of two
// matrices of 6 rows. A view of shape (2,12) exists and has the strides (24,1), and so does a view of shape (2,6,2),
// with the strides (24,2,1). A view of shape (6,4) does not exist, because the distance from row 2 to row 3 is 16, not
// 4.
func ReshapeStrides(t Type, shape []sym.Int) ([]sym.Int, bool) {
	strides := make([]sym.Int, len(shape))
	if !t.reshapeStrides(strides, shape) {
		return nil, false
	}
	return strides, true
}

// reshapeStrides writes the result of ReshapeStrides to strides.
func (t *Type) reshapeStrides(strides, shape []sym.Int) bool {
	t.mustMatchRanks()
	switch {
	case len(t.Shape) == 0:
		for d := range strides {
			strides[d] = sym.Of(1)
		}
		return true
	case t.IsRowMajor():
		// The result is row-major, too, as in PyTorch's computeStride. This holds for all sizes: no guard (recorded
		// condition on sizes) is needed.
	case !equals(t.Numel(), 0):
		return t.matchRuns(strides, shape)
	case SameSizes(t.Shape, shape):
		copy(strides, t.Strides)
		return true
	}
	rowMajor(strides, shape)
	return true
}

// IsRowMajor reports whether the strides are the same expressions as the strides of [RowMajor], for dimensions of size
// 1 too. It records no guard.
func (t Type) IsRowMajor() bool {
	t.mustMatchRanks()
	denseStride := sym.Of(1)
	for d := len(t.Shape) - 1; d >= 0; d-- {
		if !t.Strides[d].Same(denseStride) {
			return false
		}
		denseStride = mulSizes(denseStride, t.Shape[d].Max(sym.Of(1)))
	}
	return true
}

// matchRuns splits the dimensions of t, from the last to the first, into runs. The dimensions of a run can be merged
// into one dimension. To each run it assigns consecutive dimensions of shape, so that the product of their sizes
// (covered) equals the product of the sizes in the run (runNumel). It writes the strides of the dimensions of shape to
// out. It returns false if there is no such assignment. In the example of [ReshapeStrides], the runs of t are its
// dimensions 1 and 2, with 12 elements, and dimension 0, with 2 elements.
func (t *Type) matchRuns(out, shape []sym.Int) bool {
	shapeDim := len(shape) - 1
	runStride := t.Strides[len(t.Strides)-1]
	covered, runNumel := sym.Of(1), sym.Of(1)
	for runDim := len(t.Shape) - 1; runDim >= 0; runDim-- {
		runNumel = runNumel.Mul(t.Shape[runDim])
		// The next slower dimension joins the run if its size is 1, or if its stride is runNumel*runStride.
		if runDim > 0 && t.Shape[runDim-1].Eq(sym.Of(1)).Or(t.Strides[runDim-1].Eq(runNumel.Mul(runStride))).Holds() {
			continue
		}
		// The run is complete: assign dimensions of shape to it, including adjacent dimensions of size 1.
		for shapeDim >= 0 && covered.Lt(runNumel).Or(shape[shapeDim].Eq(sym.Of(1))).Holds() {
			out[shapeDim] = covered.Mul(runStride)
			covered = covered.Mul(shape[shapeDim])
			shapeDim--
		}
		if !covered.Eq(runNumel).Holds() {
			return false
		}
		if runDim > 0 {
			runStride = t.Strides[runDim-1]
			covered, runNumel = sym.Of(1), sym.Of(1)
		}
	}
	return shapeDim < 0
}

// Flatten returns the shape in which the dimensions from start to end, both included, are merged into one dimension
// (the shape of torch.flatten). A 0-dim value becomes [1].
func (t Type) Flatten(start, end int) ([]sym.Int, error) {
	if err := t.fastCheck(); err != nil {
		return nil, err
	}
	start, err := WrapDim(start, len(t.Shape))
	if err != nil {
		return nil, err
	}
	if end, err = WrapDim(end, len(t.Shape)); err != nil {
		return nil, err
	}
	if start > end {
		return nil, errors.New("flatten() has invalid args: start_dim cannot come after end_dim")
	}
	if len(t.Shape) == 0 {
		return sym.Ints(1), nil
	}
	out := make([]sym.Int, len(t.Shape)-(end-start))
	for dim := range start {
		out[dim] = t.Shape[dim]
	}
	out[start] = Product(t.Shape[start : end+1])
	for dim := start + 1; dim < len(out); dim++ {
		out[dim] = t.Shape[dim+end-start]
	}
	return out, nil
}

// Expand repeats dimensions of size 1 by a stride of 0, and adds dimensions in front; -1 keeps a size
// (Tensor.expand, inferExpandGeometry). For example, a value of shape (3,1) with the strides (1,1) expands to the shape
// (2,3,4) with the strides (0,1,0).
func (t Type) Expand(size []sym.Int) (Type, error) {
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	newRank, rank := len(size), len(t.Shape)
	if newRank < rank {
		return Type{}, fmt.Errorf("expand(%s{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to "+
			"the number of dimensions in the tensor (%d)", t.DType.legacyType(), Sizes(t.Shape), Sizes(size), newRank, rank)
	}
	shape, strides := newShapeAndStrides(newRank)
	// addedStride is the stride of an added dimension: size times stride of the dimension after it, or 0 if t is a
	// 0-dim value.
	var addedStride sym.Int
	for i := newRank - 1; i >= 0; i-- {
		oldDim := i - (newRank - rank)
		isAdded := oldDim < 0
		oldSize, stride := sym.Of(1), addedStride
		if !isAdded {
			oldSize, stride = t.Shape[oldDim], t.Strides[oldDim]
		}
		newSize := size[i]
		if n, known := newSize.Known(); known && n == -1 {
			if isAdded && rank > 0 {
				return Type{}, fmt.Errorf("The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "+
					"dimension %d", i)
			}
			if !isAdded {
				newSize = oldSize
			}
		}
		isRepeated := !oldSize.Same(newSize) && !oldSize.Eq(newSize).Holds()
		switch {
		case isRepeated && !equals(oldSize, 1):
			return Type{}, fmt.Errorf("The expanded size of the tensor (%v) must match the existing size (%v) at "+
				"non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s", size[i], oldSize, i, Sizes(size),
				Sizes(t.Shape))
		case isRepeated:
			stride = sym.Int{}
		}
		if newSize.Lt(sym.Int{}).Holds() {
			return Type{}, errors.New("numel: integer multiplication overflow") // PyTorch's error for a negative size
		}
		shape[i], strides[i] = newSize, stride
		if oldDim <= 0 && rank > 0 { // the dimension in front of this one is added
			addedStride = mulSizes(newSize, stride)
		}
	}
	return Type{DType: t.DType, Shape: shape, Strides: strides, Offset: t.Offset}.checked()
}

// legacyType returns the type name in PyTorch's older messages: "torch.FloatTensor". For some dtypes PyTorch's Python
// layer does not translate the C++ name, such as "CPUBoolType".
func (d DType) legacyType() string {
	switch d {
	case Uint8, Int8, Int16, Int32, Int64, Float16, Float32, Float64:
		return "torch." + d.TorchName() + "Tensor"
	}
	return "CPU" + d.TorchName() + "Type"
}

// AsStrided returns a value with the dtype of t and the given shape, strides and offset over the storage of t
// (Tensor.as_strided). storageElems is the size of the storage in elements. The result must fit into the storage. A
// negative storageElems means that the size is unknown; [FromStorage] then checks the result later.
func (t Type) AsStrided(size, stride []sym.Int, offset, storageElems sym.Int) (Type, error) {
	isNegative := func(s sym.Int) bool { return s.Lt(sym.Int{}).Holds() }
	if len(size) != len(stride) {
		return Type{}, errors.New("mismatch in length of strides and shape")
	}
	if slices.ContainsFunc(stride, isNegative) {
		return Type{}, fmt.Errorf("as_strided: Negative strides are not supported at the moment, got strides: %s",
			Sizes(stride))
	}
	if isNegative(offset) {
		return Type{}, fmt.Errorf("Tensor: invalid storage offset %v", offset)
	}
	out := Type{DType: t.DType, Shape: slices.Clone(size), Strides: slices.Clone(stride), Offset: offset}
	if slices.ContainsFunc(size, isNegative) || out.Check() != nil {
		return Type{}, fmt.Errorf("Storage size calculation overflowed with sizes=%s and strides=%s", Sizes(size),
			Sizes(stride))
	}
	if need := out.Extent(); !isNegative(storageElems) && need.Gt(storageElems).Holds() {
		itemSize := sym.Of(t.DType.Size())
		return Type{}, fmt.Errorf("setStorage: sizes %s, strides %s, storage offset %v, and itemsize %v requiring a "+
			"storage size of %v are out of bounds for storage of size %v",
			Sizes(size), Sizes(stride), offset, itemSize, mulSizes(need, itemSize), mulSizes(storageElems, itemSize))
	}
	return out, nil
}

// Unfold replaces a dimension by windows of the given size, whose starts are step apart. The elements of a window are a
// new last dimension (Tensor.unfold). For example, size 3 and step 2 turn a value of shape (7) and stride (1) into a
// view of shape (3,3) with the strides (2,1). A 0-dim value counts as a value of shape [1].
func (t Type) Unfold(dimension int, size, step sym.Int) (_ Type, err error) {
	defer sym.Catch(&err) // dimSize.Sub and Div panic if a number overflows
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	dim, err := WrapDim(dimension, len(t.Shape))
	if err != nil {
		return Type{}, err
	}
	dimSize, stride := sym.Of(1), sym.Of(1)
	if len(t.Shape) > 0 {
		dimSize, stride = t.Shape[dim], t.Strides[dim]
	}
	switch {
	case size.Gt(dimSize).Holds():
		return Type{}, fmt.Errorf("maximum size for tensor at dimension %d is %v but size is %v", dim, dimSize, size)
	case size.Lt(sym.Int{}).Holds():
		return Type{}, fmt.Errorf("size is %v but must be >= 0", size)
	case step.Le(sym.Int{}).Holds():
		return Type{}, fmt.Errorf("step is %v but must be > 0", step)
	}
	out := t.cloneWithRoom()
	if len(t.Shape) > 0 {
		out.Shape[dim] = dimSize.Sub(size).Div(step).Add(sym.Of(1))
		out.Strides[dim] = mulSizes(stride, step)
	}
	out.Shape, out.Strides = append(out.Shape, size), append(out.Strides, stride)
	return out.checked()
}
