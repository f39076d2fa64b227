package window

import "math"

// The numbers of interpolation modes.
const (
	gridBilinear = iota
	gridNearest
	gridBicubic
)

// The numbers of padding modes.
const (
	padZeros = iota
	padBorder
	padReflection
)

// torchCubicCoefficient is the coefficient of cubic convolution in PyTorch.
const torchCubicCoefficient = -0.75

// gridTap is an element of the operand that a sample reads, with its weight.
type gridTap struct {
	offset int // distance from the first element of the plane, in the unit of gridAxis.stride
	weight float64
}

// gridAxis is a spatial dimension of the operand. stride is in bytes in kernels and in elements in the reference.
type gridAxis struct{ size, stride int }

// gridSampling describes a call of grid_sampler. It computes the taps of samples in three steps:
//
//  1. A point has the coordinates x, y and, for volumes, z of a sample, each from -1 to 1 inside the operand. x is the
//     coordinate of the last axis. Each coordinate is mapped to a fractional index of its axis.
//  2. An index outside the axis is moved inside, as the padding mode requires. Mode bicubic moves each neighbour of
//     step 3 instead. Padding with zeros omits elements outside.
//  3. The neighbours of the index along the axis become taps. The taps of a sample are all combinations of the taps
//     along the axes.
//
// For example, the bilinear sample at row 1.25 and column 2.5 has the taps (1, 2) and (1, 3) with weight 0.75*0.5, and
// (2, 2) and (2, 3) with weight 0.25*0.5.
type gridSampling struct {
	mode, padding int // numbers of the interpolation mode and the padding mode
	alignCorners  bool
	axes          []gridAxis // height and width, or depth, height and width
}

// maxTapsOf returns the maximum number of taps of a sample in an interpolation mode, with the given number of axes.
func maxTapsOf(mode, axes int) int {
	taps, tapsPerAxis := 1, [...]int{gridBilinear: 2, gridNearest: 1, gridBicubic: 4}[mode]
	for range axes {
		taps *= tapsPerAxis
	}
	return taps
}

// storeTaps stores the taps of a sample, at most maxTapsOf, and returns their number. tapsByAxis is scratch memory:
// taps along depth, height and width.
func (s *gridSampling) storeTaps(point *[3]float64, tapsByAxis *[3][4]gridTap, taps []gridTap) (count int) {
	if s.isUndefined(point) {
		taps[0] = gridTap{0, math.NaN()}
		return 1
	}
	tapsByAxis[0][0] = gridTap{0, 1} // images have a depth of 1: one tap with weight 1
	counts, last := [3]int{1, 0, 0}, len(s.axes)-1
	for i := range s.axes { // x belongs to the last axis, y to the axis before it, z to the first
		counts[2-i] = s.storeTapsAlong(point[i], &s.axes[last-i], &tapsByAxis[2-i])
	}
	for _, z := range tapsByAxis[0][:counts[0]] {
		for _, y := range tapsByAxis[1][:counts[1]] {
			offset, weight := z.offset+y.offset, z.weight*y.weight
			for _, x := range tapsByAxis[2][:counts[2]] {
				taps[count] = gridTap{offset + x.offset, weight * x.weight}
				count++
			}
		}
	}
	return count
}

// isUndefined reports whether the weights of a sample are NaN because a coordinate is not finite. Samples of volumes
// never have NaN weights, because taps at such indices are omitted or clipped. In mode nearest, each weight is 1. In
// mode bilinear with padding other than zeros, indices are clipped before weights are computed.
func (s *gridSampling) isUndefined(point *[3]float64) bool {
	isVolume, isClipped := len(s.axes) == 3, s.mode == gridBilinear && s.padding != padZeros
	if isVolume || isClipped || s.mode == gridNearest {
		return false
	}
	return point[0]-point[0] != 0 || point[1]-point[1] != 0 // x-x is NaN if x is not finite
}

// storeTapsAlong stores the taps of a coordinate along one axis, and returns their number.
func (s *gridSampling) storeTapsAlong(coordinate float64, axis *gridAxis, taps *[4]gridTap) (count int) {
	x := s.fractionalIndex(coordinate, axis.size)
	switch s.mode {
	case gridNearest:
		return axis.appendTap(taps, 0, math.RoundToEven(s.paddedIndex(x, axis.size)), 1)
	case gridBicubic:
		base := math.Floor(x)
		for tap, weight := range cubicWeights(x-base, torchCubicCoefficient) {
			count = axis.appendTap(taps, count, s.paddedIndex(base-1+float64(tap), axis.size), weight)
		}
		return count
	}
	if s.padding != padZeros {
		x = s.paddedIndex(x, axis.size)
	}
	base := math.Floor(x)
	count = axis.appendTap(taps, 0, base, 1-(x-base))
	return axis.appendTap(taps, count, base+1, x-base)
}

// fractionalIndex maps coordinate x, from -1 to 1, to a fractional index of an axis of the given size.
func (s *gridSampling) fractionalIndex(x float64, size int) float64 {
	if s.alignCorners {
		return (x + 1) / 2 * float64(size-1)
	}
	return (float64((x+1)*float64(size)) - 1) / 2 // float64(...) prevents a fused multiply-subtract
}

// paddedIndex maps a fractional index x outside the axis to an index inside, as the padding mode requires. Padding with
// zeros keeps the index.
func (s *gridSampling) paddedIndex(x float64, size int) float64 {
	switch s.padding {
	case padBorder:
		return s.clippedIndex(x, size)
	case padReflection:
		return s.clippedIndex(s.reflectedIndex(x, size), size)
	}
	return x
}

// reflectedIndex reflects an index at the two borders of the axis until it is between the borders. With alignCorners,
// the borders are the centres of the first and last elements. Otherwise they are the outer edges of these elements.
func (s *gridSampling) reflectedIndex(x float64, size int) float64 {
	lowerBorder, borderDistance := -0.5, float64(size)
	if s.alignCorners {
		lowerBorder, borderDistance = 0, float64(size-1)
	}
	if borderDistance == 0 {
		return 0
	}
	x = math.Abs(x - lowerBorder)
	reflections, remainder := math.Floor(x/borderDistance), math.Mod(x, borderDistance)
	if math.Mod(reflections, 2) == 0 {
		return remainder + lowerBorder
	}
	return borderDistance - remainder + lowerBorder
}

// clippedIndex clamps an index to the axis. NaN becomes the first index of images and the last index of volumes,
// because PyTorch's vector and scalar comparisons differ.
func (s *gridSampling) clippedIndex(x float64, size int) float64 {
	switch last := float64(size - 1); {
	case x > last, x != x && len(s.axes) == 3:
		return last
	case x > 0:
		return x
	}
	return 0
}

// appendTap appends the element at an index to the taps of an axis, and returns the new number of taps. The index is an
// integer. count is the number of taps so far. An element outside the axis is omitted.
func (axis *gridAxis) appendTap(taps *[4]gridTap, count int, index, weight float64) int {
	if index >= 0 && index < float64(axis.size) {
		taps[count] = gridTap{int(index) * axis.stride, weight}
		count++
	}
	return count
}

// storeInnerTaps stores the taps of samples of an image. In mode bilinear, sample i has four taps from taps[4*i] on. In
// mode nearest, sample i has the tap taps[i]. A sample with a tap outside the image gets a count of 0, and the caller
// then calls storeTaps for it. storeInnerTaps takes less than half the time of storeTaps.
func (s *gridSampling) storeInnerTaps(points [][3]float64, taps []gridTap, counts []int) {
	rows, columns := s.axes[0], s.axes[1]
	lastRow, lastColumn := float64(rows.size-1), float64(columns.size-1)
	for i := range points {
		y, x := s.fractionalIndex(points[i][1], rows.size), s.fractionalIndex(points[i][0], columns.size)
		if s.padding != padZeros {
			y, x = s.paddedIndex(y, rows.size), s.paddedIndex(x, columns.size)
		}
		counts[i] = 0
		if s.mode == gridNearest {
			row, column := math.RoundToEven(y), math.RoundToEven(x)
			if row >= 0 && column >= 0 && row <= lastRow && column <= lastColumn {
				taps[i], counts[i] = gridTap{int(row)*rows.stride + int(column)*columns.stride, 1}, 1
			}
			continue
		}
		top, left := math.Floor(y), math.Floor(x)
		isInside := top >= 0 && left >= 0 && top < lastRow && left < lastColumn // false for NaN
		if !isInside {
			continue
		}
		lowerWeight, rightWeight := y-top, x-left // weights of the lower row and of the right column
		upperWeight, topLeft := 1-lowerWeight, int(top)*rows.stride+int(left)*columns.stride
		four := (*[4]gridTap)(taps[4*i:])
		four[0].offset, four[0].weight = topLeft, upperWeight*(1-rightWeight)
		four[1].offset, four[1].weight = topLeft+columns.stride, upperWeight*rightWeight
		four[2].offset, four[2].weight = topLeft+rows.stride, lowerWeight*(1-rightWeight)
		four[3].offset, four[3].weight = topLeft+rows.stride+columns.stride, lowerWeight*rightWeight
		counts[i] = 4
	}
}
