package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// space is the iteration space of a node or group. The shape is nil if the nodes have no common space. For example, a
// relu of [8, 100] has the shape [8, 100] and no mask. A mean over the last dimension of [8, 100] has the same shape
// and the mask [false, true]: a row has 100 elements, and there are 8 rows.
type space struct {
	shape    []int
	mask     []bool // marks the dimensions that are reduced (a row is a run along them); nil if none is reduced
	split    int    // if not 0, the number of parts into which dimension 1 is split before mask applies
	inPieces bool   // rows are too long for one loop: they are processed in pieces, in a single pass
}

// reducedShape returns the shape after the reduction, with size 1 in the row dimensions. The space must not be split.
func (s space) reducedShape() []int {
	shape := slices.Clone(s.shape)
	for dim, isReduced := range s.mask {
		if isReduced {
			shape[dim] = 1
		}
	}
	return shape
}

// commonSpace returns the space of the union of two groups with the given spaces. The second group reads results of the
// first group. The returned space has no shape if neither space covers both groups.
func commonSpace(first, second space) space {
	sameShape := slices.Equal(first.shape, second.shape)
	switch {
	case first.mask == nil && second.mask == nil && sameShape: // neither reduces rows
		return first
	case first.mask == nil && second.mask != nil && second.covers(first): // only the second reduces rows
		return second
	case first.mask != nil && second.mask == nil && first.covers(second): // only the first reduces rows
		return first
	case first.mask != nil && second.mask != nil && sameShape && first.split == second.split &&
		slices.Equal(first.mask, second.mask): // both reduce the same rows
		return first
	}
	return space{}
}

// covers reports whether a space that reduces rows covers a space that does not. The other space must have the elements
// of the rows, or one element for each row.
func (s space) covers(other space) bool {
	return slices.Equal(s.shape, other.shape) || s.split == 0 && slices.Equal(other.shape, s.reducedShape())
}

// mergedSpace returns the space of the union of two groups. The first group (or node) is given by its space. The second
// group reads results of the first group. The returned space has no shape if the groups cannot be merged. The function
// inFirst reports whether the first group computes a value.
//
// In addition to the cases of commonSpace, the second group may iterate over the first group's results without their
// reduced dimensions, such as [8] if the first group reduces rows of [8, 100]. All its other operands must then have
// one element, because larger operands would be indexed by other dimensions.
func mergedSpace(first space, second *nodeGroup, inFirst func(*graph.Value) bool) space {
	if common := commonSpace(first, second.space); common.shape != nil {
		return common
	}
	if first.mask == nil || first.split != 0 || second.space.mask != nil ||
		!slices.Equal(second.space.shape, first.withoutReduced()) {
		return space{}
	}
	for v := range second.operands {
		if !inFirst(v) && v.Meta.Numel() != 1 {
			return space{}
		}
	}
	return first
}

// withoutReduced returns the shape after the reduction, without the row dimensions. The space must not be split.
func (s space) withoutReduced() []int {
	shape := []int{}
	for dim, size := range s.shape {
		if !s.mask[dim] {
			shape = append(shape, size)
		}
	}
	return shape
}
