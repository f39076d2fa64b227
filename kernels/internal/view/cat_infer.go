package view

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// inlineParts is the greatest number of operands for which inference allocates no list of types.
const inlineParts = 4

// concatType returns the type of the concatenation of parts, and the dimension as a non-negative number
// (TORCH_PRECOMPUTE_META_FUNC(cat)). Empty one-dimensional values contribute only their dtype and memory format,
// because early versions of PyTorch had no other empty values.
func concatType(parts []tensor.Type, dim int) (tensor.Type, int, error) {
	var p tensor.Promotion
	valid := -1
	for i := range parts {
		t := &parts[i]
		if len(t.Shape) == 0 {
			return *t, 0, fmt.Errorf("zero-dimensional tensor (at position %d) cannot be concatenated", i)
		}
		if valid < 0 && !isLegacyEmpty(t) {
			valid = i
		}
		p.Add(t.DType, len(t.Shape))
	}
	dtype, err := p.Result()
	if err != nil || valid < 0 {
		return tensor.NewType(dtype, sym.Int{}), 0, err
	}
	if dim, err = tensor.WrapDim(dim, parts[valid].Rank()); err != nil {
		return tensor.Type{}, 0, err
	}
	shape := slices.Clone(parts[valid].Shape)
	shape[dim] = sym.Int{}
	for i := range parts {
		t := &parts[i]
		if isLegacyEmpty(t) {
			continue
		}
		if err := checkJoinShape(parts[valid].Shape, t.Shape, dim, i); err != nil {
			return *t, 0, err
		}
		sum := shape[dim].Add(t.Shape[dim])
		if n, known := sum.Known(); known { // clamp sizes that no value can have, so that sums do not wrap
			sum = sym.Of(min(n, tensor.MaxBytes))
		}
		shape[dim] = sum
	}
	if err := tensor.CheckSizes(dtype, shape); err != nil {
		return tensor.Type{}, 0, err
	}
	out, err := tensor.NewTypeFormat(dtype, shape, joinFormat(parts))
	return out, dim, err
}

// isLegacyEmpty reports whether t is an empty one-dimensional value.
func isLegacyEmpty(t *tensor.Type) bool { return len(t.Shape) == 1 && kit.SizeIs(t.Shape[0], 0) }

// checkJoinShape returns an error if shape, the shape of an operand, differs from the first shape in another dimension
// than dim (check_cat_shape_except_dim).
func checkJoinShape(first, shape []sym.Int, dim, operand int) error {
	if len(first) != len(shape) {
		return fmt.Errorf("Tensors must have same number of dimensions: got %d and %d", len(first), len(shape))
	}
	for d, s := range shape {
		if d != dim && !s.Same(first[d]) && s.Ne(first[d]).Holds() {
			return fmt.Errorf("Sizes of tensors must match except in dimension %d. Expected size %v but got size %v for "+
				"tensor number %d in the list.", dim, first[d], s, operand)
		}
	}
	return nil
}

// joinFormat returns the memory format that the strides of all parts suggest, or contiguous if they differ
// (cat_compute_output_memory_format).
func joinFormat(parts []tensor.Type) tensor.MemoryFormat {
	f := parts[0].SuggestMemoryFormat(false)
	for i := range parts[1:] {
		if t := &parts[1+i]; t.SuggestMemoryFormat(false) != f {
			return tensor.Contiguous
		}
	}
	return f
}
