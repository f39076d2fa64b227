package view

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// concatType returns the type of the concatenation of values whose types are parts, and the dimension dim as a
// non-negative number (TORCH_PRECOMPUTE_META_FUNC(cat)). Legacy empty values ([isLegacyEmpty]) contribute only their
// dtype and memory format.
func concatType(parts []tensor.Type, dim int) (tensor.Type, int, error) {
	var promotion tensor.Promotion
	first := -1 // index of the first part that is not legacy empty
	for i := range parts {
		part := &parts[i]
		if len(part.Shape) == 0 {
			return *part, 0, fmt.Errorf("zero-dimensional tensor (at position %d) cannot be concatenated", i)
		}
		if first < 0 && !isLegacyEmpty(part) {
			first = i
		}
		promotion.Add(part.DType, len(part.Shape))
	}
	dtype, err := promotion.Result()
	if err != nil || first < 0 { // if all parts are legacy empty, so is the result
		return tensor.NewType(dtype, sym.Int{}), 0, err
	}
	if dim, err = tensor.WrapDim(dim, parts[first].Rank()); err != nil {
		return tensor.Type{}, 0, err
	}
	shape := slices.Clone(parts[first].Shape)
	shape[dim] = sym.Int{}
	for i := range parts {
		part := &parts[i]
		if isLegacyEmpty(part) {
			continue
		}
		if err := checkJoinShape(parts[first].Shape, part.Shape, dim, i); err != nil {
			return *part, 0, err
		}
		sum := shape[dim].Add(part.Shape[dim])
		if known, isKnown := sum.Known(); isKnown { // clamp sizes that no value can have, so that sums do not wrap
			sum = sym.Of(min(known, tensor.MaxBytes))
		}
		shape[dim] = sum
	}
	if err := tensor.CheckSizes(dtype, shape); err != nil {
		return tensor.Type{}, 0, err
	}
	out, err := tensor.NewTypeFormat(dtype, shape, joinFormat(parts))
	return out, dim, err
}

// isLegacyEmpty reports whether a part is an empty one-dimensional value. Early versions of PyTorch had no other empty
// values, so cat accepts such parts together with values of any shape.
func isLegacyEmpty(part *tensor.Type) bool {
	return len(part.Shape) == 1 && kit.SizeIs(part.Shape[0], 0)
}

// checkJoinShape returns an error if the shape of an operand differs from the first shape in any dimension except dim
// (check_cat_shape_except_dim).
func checkJoinShape(first, shape []sym.Int, dim, operand int) error {
	if len(first) != len(shape) {
		return fmt.Errorf("Tensors must have same number of dimensions: got %d and %d", len(first), len(shape))
	}
	for d, size := range shape {
		if d != dim && !size.Same(first[d]) && size.Ne(first[d]).Holds() {
			return fmt.Errorf("Sizes of tensors must match except in dimension %d. Expected size %v but got size %v for "+
				"tensor number %d in the list.", dim, first[d], size, operand)
		}
	}
	return nil
}

// joinFormat returns the memory format that the strides of all parts suggest. If the parts suggest different formats,
// it returns contiguous (cat_compute_output_memory_format).
func joinFormat(parts []tensor.Type) tensor.MemoryFormat {
	format := suggestedFormat(parts[0])
	for i := range parts[1:] {
		if suggestedFormat(parts[1+i]) != format {
			return tensor.Contiguous
		}
	}
	return format
}
