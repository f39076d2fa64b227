package strided

// This file prepares the axes of a copy for a plan: Coalesce sorts and merges them, and an axis is cut into tiles.

// Coalesce drops dimensions of size 1 and merges dimensions that are contiguous on both sides. It sorts dimensions by
// their stride in dst, smallest first; equal strides are sorted by the stride in src. It works in place.
func Coalesce(axes []Axis) []Axis {
	sorted := axes[:0]
	for _, dim := range axes {
		if dim.N == 1 {
			continue
		}
		position := len(sorted) // insertion sort
		sorted = append(sorted, dim)
		for ; position > 0 && hasSmallerStride(dim, sorted[position-1]); position-- {
			sorted[position] = sorted[position-1]
		}
		sorted[position] = dim
	}
	merged := 0
	for _, dim := range sorted {
		if merged > 0 {
			previous := &sorted[merged-1]
			if dim.Dst == previous.N*previous.Dst && dim.Src == previous.N*previous.Src { // dim continues previous
				previous.N *= dim.N
				continue
			}
		}
		sorted[merged] = dim
		merged++
	}
	return sorted[:merged]
}

// hasSmallerStride reports whether the first axis precedes the second in the order of Coalesce. Axes with stride 0 in
// dst, along which elements overwrite one another, are last.
func hasSmallerStride(first, second Axis) bool {
	if first.Dst != second.Dst {
		return second.Dst == 0 || first.Dst != 0 && first.Dst < second.Dst
	}
	return abs(first.Src) < abs(second.Src)
}

// axis is a dimension that is divided into tiles.
type axis struct {
	Axis
	tileLen, tileCount int
}

// cut divides the dimension into tiles of at most maxLen indices.
func (d *axis) cut(maxLen int) {
	d.tileLen = max(1, min(maxLen, d.N))
	d.tileCount = (d.N + d.tileLen - 1) / d.tileLen
}

// cutEvenly cuts the dimension into tiles of nearly equal length, with the fewest tiles of at most about maxLen
// indices. If there are several tiles, the length of each tile except the last is a multiple of unit.
func (d *axis) cutEvenly(maxLen, unit int) {
	if d.cut(maxLen); d.tileCount > 1 {
		evenLen := (d.N + d.tileCount - 1) / d.tileCount
		d.cut((evenLen + unit - 1) / unit * unit)
	}
}
