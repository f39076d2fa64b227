package operators

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts MaxRoiPool, which pools regions of images. The operands are images, [N, C, H, W], and regions,
// [regions, 5]. A region is (image, x1, y1, x2, y2) in coordinates that are multiplied by spatial_scale and rounded. It
// includes its corners. The attribute pooled_shape, [h, w], divides each region into h x w cells. The result, [regions,
// C, h, w], has the maximum of each cell in each channel, and 0 for a cell outside the image. Cells may overlap: if a
// region has the rows 0 to 4 and h is 2, its cells have the rows 0 to 2 and 2 to 4.

// maxRoiPool converts MaxRoiPool: a scan over the regions, with the images as its state.
func maxRoiPool(n *node) []*value {
	x, regions := n.Operand(0), n.Operand(1)
	cells, _ := n.Ints("pooled_shape")
	if sizes := n.Sizes(regions); len(cells) != 2 || n.Rank(x) != 4 || len(sizes) != 2 || sizes[1] != 5 && sizes[1] >= 0 {
		n.Failf("want two numbers in pooled_shape, an operand of 4 dimensions, and regions of shape [n, 5]")
	}
	if cells[0] < 1 || cells[1] < 1 || cells[0] > 1<<12/cells[1] {
		n.Failf("pooled_shape %s is not supported: want 1 to 4096 cells", tensor.ListString(cells))
	}
	pool := roiPool{scale: n.Float("spatial_scale", 1), h: cells[0], w: cells[1]}
	columns := n.Op("permute", graph.Attrs{"dims": []int{1, 0}}, regions).WithRank(2)
	pooled := n.ScanRows(x, []*value{columns}, roiStepNodes, pool.step)[1] // [C, regions, h, w]
	return single(n.Op("permute", graph.Attrs{"dims": []int{1, 0, 2, 3}}, pooled).WithRank(4))
}

// roiPool has the attributes of a MaxRoiPool node.
type roiPool struct {
	scale float64
	h, w  int
}

// roiStepNodes is an upper bound on the number of nodes of [roiPool.step].
const roiStepNodes = 64

// step returns the images and the maximum of each cell and channel of a region, [C, h, w].
func (p roiPool) step(n *node, images *value, rows []*value) (sameImages, y *value) {
	region := n.Cast(rows[0], tensor.Float64)
	index := n.Cast(n.Op("slice", graph.Attrs{"dim": 0, "start": 0, "end": 1}, region), tensor.Int64)
	index = n.Op("where", nil, n.Op("lt", nil, index, 0), math.MaxInt, index) // out of range, as any index beyond the images
	image := n.Op("index_select", graph.Attrs{"dim": 0}, images, index).WithRank(4)
	corner := func(i int) *value { // + 0.5, truncated toward 0: nearest integers, with halves rounded up
		scaled := n.Op("add", nil, n.Op("mul", nil, n.Element(region, i), p.scale), 0.5)
		return n.Cast(scaled, tensor.Int64)
	}
	sizes := n.SymShape(image)
	isInRow := isInCell(n, corner(2), corner(4), p.h, n.IndexVector(sizes[2]))    // [h, H]
	isInColumn := isInCell(n, corner(1), corner(3), p.w, n.IndexVector(sizes[3])) // [w, W]
	maximum := func(x, isIncluded *value, dim int) *value {
		masked := n.Op("where", nil, isIncluded, x, math.Inf(-1))
		attrs := graph.Attrs{"dim": []int{dim}, "accept_empty": true}
		return n.Op("amax", attrs, masked).WithRank(n.Rank(x) - 1)
	}
	unsqueeze := func(x *value, dim int) *value {
		return n.Op("unsqueeze", graph.Attrs{"dim": dim}, x).WithRank(n.Rank(x) + 1)
	}
	y = n.Op("squeeze", graph.Attrs{"dim": 0}, image).WithRank(3)
	y = maximum(unsqueeze(y, 2), isInColumn, 3)            // [C, H, 1, W] to [C, H, w]
	y = maximum(unsqueeze(y, 1), unsqueeze(isInRow, 2), 2) // [C, 1, H, w] to [C, h, w]
	hasElements := func(isIncluded *value) *value { return n.Op("any", graph.Attrs{"dim": 1}, isIncluded) }
	isInImage := n.Op("logical_and", nil, unsqueeze(hasElements(isInRow), 1), hasElements(isInColumn))
	return images, n.Op("where", nil, isInImage, y, 0.0)
}

// isInCell reports for each cell whether it includes each index: [cells, indices]. The region has the indices from
// first to last. Cell i has those from first + floor(i*length/count) to first + ceil((i+1)*length/count), exclusive,
// where length is last-first+1.
func isInCell(n *node, first, last *value, count int, index *value) *value {
	length := n.Op("clamp_min", graph.Attrs{"min": 1}, n.Op("add", nil, n.Op("sub", nil, last, first), 1))
	cell := n.Reshape(convert.IntVector(firstInts(count)...), count, 1)
	bound := func(cell *value, addend int) *value { // first + floor((cell*length + addend) / count)
		sum := n.Op("add", nil, n.Op("mul", nil, cell, length), addend)
		return n.Op("add", nil, n.Op("div", graph.Attrs{"rounding_mode": "floor"}, sum, count), first)
	}
	start, end := bound(cell, 0), bound(n.Op("add", nil, cell, 1), count-1)
	return n.Op("logical_and", nil, n.Op("ge", nil, index, start), n.Op("lt", nil, index, end)).WithType(tensor.Bool, 2)
}
