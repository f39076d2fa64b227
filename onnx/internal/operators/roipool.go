package operators

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts MaxRoiPool. Operand 0 has images, [N, C, height, width]. Operand 1 has regions, one in each row:
// [image, x1, y1, x2, y2] are the index of an image, and the columns x and rows y of two opposite corners. The region
// includes its corners. The attribute pooled_shape, [h, w], divides each region into h x w cells. The result, [regions,
// C, h, w], has the maximum of each cell in each channel. Cells may overlap: if a region has the rows 0 to 4 and h is
// 2, its cells have the rows 0 to 2 and 2 to 4.

// maxRoiPool converts MaxRoiPool with constant regions.
func maxRoiPool(n *node) []*value {
	x, regions := n.Operand(0), n.Operand(1).Data()
	cellCounts, _ := n.Ints("pooled_shape")
	shape := n.SymShape(x)
	if regions == nil {
		n.Failf("only regions that are known before the graph runs are supported")
	}
	if len(cellCounts) != 2 || len(shape) != 4 || regions.Rank() != 2 || regions.Shape[1] != 5 {
		n.Failf("want two numbers in pooled_shape, an operand of 4 dimensions, and regions of shape [n, 5]")
	}
	scale := n.Float("spatial_scale", 1)
	var results []any
	for region := range regions.Shape[0] {
		imageIndex := int(regions.At(region, 0).Int())
		if images, known := shape[0].Known(); imageIndex < 0 || known && imageIndex >= images {
			n.Failf("region %d belongs to image %d, but there are %v images", region, imageIndex, shape[0])
		}
		image := n.Op("slice", graph.Attrs{"dim": 0, "start": imageIndex, "end": imageIndex + 1}, x)
		imageSize := n.KnownNumbers("the sizes of images", shape[2:])
		corner := func(i int) int { return roundHalf(regions.At(region, i).Float() * scale) }
		rows := interval{first: corner(2), last: corner(4), cellCount: cellCounts[0], imageSize: imageSize[0]}
		columns := interval{first: corner(1), last: corner(3), cellCount: cellCounts[1], imageSize: imageSize[1]}
		results = append(results, cellMaxima(n, image, rows, columns))
	}
	if len(results) == 0 {
		size := n.SizesAttr(sym.Of(0), shape[1], sym.Of(cellCounts[0]), sym.Of(cellCounts[1]))
		return single(n.Op("full", graph.Attrs{"size": size, "fill_value": 0, "dtype": x.DType()}))
	}
	return single(n.Op("cat", nil, results...))
}

// roundHalf returns x + 0.5, truncated toward 0. If x >= -0.5, this is the nearest integer, and halves are rounded up.
func roundHalf(x float64) int { return int(float64(x) + 0.5) } // float64 prevents a fused multiply-add after inlining

// interval has the rows or the columns of a region.
type interval struct {
	first, last int // may be outside the image
	cellCount   int
	imageSize   int // number of rows or columns of the image
}

// cell returns the rows or columns of cell i, [start, end), that are in the image. start is
// first + floor(i*length/cellCount), end is first + ceil((i+1)*length/cellCount), and length is last-first+1.
func (v interval) cell(i int) (start, end int) {
	length := max(v.last-v.first+1, 1)
	start = v.first + i*length/v.cellCount
	end = v.first + ((i+1)*length+v.cellCount-1)/v.cellCount
	return min(max(start, 0), v.imageSize), min(max(end, 0), v.imageSize)
}

// cellMaxima returns the maximum of each cell and channel of a region, [1, C, h, w]. It is 0 for a cell outside the
// image.
func cellMaxima(n *node, image *value, rows, columns interval) *value {
	h, w := rows.cellCount, columns.cellCount // pooled_shape
	if h < 1 || w < 1 || h*w > 1<<12 {
		n.Failf("pooled_shape %s is not supported: want 1 to 4096 cells", tensor.ListString([]int{h, w}))
	}
	var cells []any // [1, C] each
	for row := range h {
		top, bottom := rows.cell(row)
		for column := range w {
			left, right := columns.cell(column)
			if top >= bottom || left >= right {
				size := n.SizesAttr(sym.Of(1), n.SymShape(image)[1])
				cells = append(cells, n.Op("full", graph.Attrs{"size": size, "fill_value": 0, "dtype": image.DType()}))
				continue
			}
			cellRows := n.Op("slice", graph.Attrs{"dim": 2, "start": top, "end": bottom}, image)
			cell := n.Op("slice", graph.Attrs{"dim": 3, "start": left, "end": right}, cellRows)
			cells = append(cells, n.Op("amax", graph.Attrs{"dim": []int{2, 3}}, cell))
		}
	}
	stacked := n.Op("stack", graph.Attrs{"dim": 2}, cells...)
	return n.ReshapeSym(stacked, sym.Of(1), n.SymShape(image)[1], sym.Of(h), sym.Of(w))
}
