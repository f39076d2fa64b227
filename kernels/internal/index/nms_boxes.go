package index

import (
	"cmp"
	"context"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Box is a rectangle from (X0, Y0) to (X1, Y1).
type Box struct{ X0, Y0, X1, Y1 float64 }

// NewBox returns a box. If isCentered is set, coordinates has x and y of the center, the width and the height.
// Otherwise it has x and y of two opposite corners. The conversions to float64 prevent fused multiply-adds, here and in
// [Box.IOU].
func NewBox(isCentered bool, coordinates [4]float64) Box {
	if isCentered {
		x, y := coordinates[0], coordinates[1]
		halfWidth, halfHeight := float64(coordinates[2]/2), float64(coordinates[3]/2)
		return Box{X0: x - halfWidth, Y0: y - halfHeight, X1: x + halfWidth, Y1: y + halfHeight}
	}
	return Box{
		X0: min(coordinates[0], coordinates[2]), Y0: min(coordinates[1], coordinates[3]),
		X1: max(coordinates[0], coordinates[2]), Y1: max(coordinates[1], coordinates[3]),
	}
}

// IOU returns the intersection over union of two boxes: the area of the intersection divided by the area of the union.
// It is 0 if the boxes do not intersect.
func (b *Box) IOU(other *Box) float64 {
	width, height := min(b.X1, other.X1)-max(b.X0, other.X0), min(b.Y1, other.Y1)-max(b.Y0, other.Y0)
	if !(width > 0 && height > 0) {
		return 0
	}
	intersection := float64(width * height)
	union := float64((b.X1-b.X0)*(b.Y1-b.Y0)) + float64((other.X1-other.X0)*(other.Y1-other.Y0)) - intersection
	return intersection / union
}

// Suppress returns the indices of at most maxBoxes boxes to keep, in descending order of score. A box is dropped if its
// intersection over union with a kept box exceeds iouThreshold. If minScore is not nil, boxes with scores up to
// *minScore are dropped, too. Boxes of equal score are in the order of their indices. NaN is the highest score, as in
// PyTorch's sort.
func Suppress(ctx context.Context, boxes []Box, scores []float64, iouThreshold float64, minScore *float64,
	maxBoxes int) []int {
	var candidates []scoredBox
	for i, score := range scores {
		if minScore == nil || score > *minScore {
			candidates = append(candidates, scoredBox{score, i})
		}
	}
	kit.Sort(ctx, candidates, compareScores)
	kept := newKeptBoxes(boxes, iouThreshold)
	for _, candidate := range candidates {
		if len(kept.order) >= maxBoxes {
			break
		}
		interrupt.Check(ctx)
		if b := &boxes[candidate.box]; !kept.overlaps(b) {
			kept.keep(candidate.box, b)
		}
	}
	return kept.order
}

// scoredBox is the index of a box and its score.
type scoredBox struct {
	score float64
	box   int
}

// compareScores orders boxes by descending score, with NaN first, and boxes of equal score by index.
func compareScores(a, b scoredBox) int {
	if a.score != a.score || b.score != b.score { // cmp.Compare orders NaN first
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.box, b.box))
	}
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.box, b.box))
}

// keptBoxes holds the boxes that were kept so far. The plane is divided into vertical strips of equal width, and a kept
// box is listed in the strip of its left edge. A kept box overlaps a new box only if its left edge is between two
// bounds: the new box's left edge minus the width of the widest box, and the new box's right edge. Therefore only a few
// strips are searched.
type keptBoxes struct {
	iouThreshold float64 // overlap above which a box is dropped
	order        []int   // indices of the kept boxes, in the order in which they were kept
	strips       [][]Box // kept boxes by strip
	begin        float64 // least left edge of all boxes
	scale        float64 // number of strips per unit of x
	widest       float64 // width of the widest box
}

const (
	maxStrips     = 1024 // bounds the memory of the strips
	boxesPerStrip = 4    // mean number of boxes of a strip, unless maxStrips bounds the number of strips
)

// newKeptBoxes returns a keptBoxes without kept boxes. Its strips divide the range of the given boxes, which are all
// boxes that may be kept.
func newKeptBoxes(boxes []Box, iouThreshold float64) *keptBoxes {
	kept := &keptBoxes{iouThreshold: iouThreshold}
	// Boxes without an intersection have an IoU of 0, which exceeds a negative limit: every box is compared with all
	// kept boxes, in one strip. A limit of NaN drops no box.
	if !(iouThreshold >= 0) {
		kept.strips = make([][]Box, 1)
		return kept
	}
	end := 0.0 // greatest right edge
	for i := range boxes {
		b := &boxes[i]
		if i == 0 || b.X0 < kept.begin {
			kept.begin = b.X0
		}
		if i == 0 || b.X1 > end {
			end = b.X1
		}
		kept.widest = max(kept.widest, b.X1-b.X0)
	}
	stripCount := min(maxStrips, len(boxes)/boxesPerStrip+1)
	// A single strip is used if all boxes together cover no width, or if products with the scale could overflow.
	const large = 1e300
	kept.scale = float64(stripCount) / (end - kept.begin)
	if !(kept.scale > 0 && kept.scale < large && kept.widest < large) {
		stripCount, kept.scale = 1, 0
	}
	kept.strips = make([][]Box, stripCount)
	return kept
}

// stripAt returns the index of the strip that contains x. It is the first or the last strip if x is outside all strips.
func (kept *keptBoxes) stripAt(x float64) int {
	if len(kept.strips) == 1 {
		return 0
	}
	return int(min(max((x-kept.begin)*kept.scale, 0), float64(len(kept.strips)-1)))
}

// keep adds box b with index i.
func (kept *keptBoxes) keep(i int, b *Box) {
	strip := kept.stripAt(b.X0)
	kept.order, kept.strips[strip] = append(kept.order, i), append(kept.strips[strip], *b)
}

// overlaps reports whether the intersection over union of b and a kept box exceeds the threshold. It searches one more
// strip on the left, because rounding may move the left edge of a kept box to a neighbouring strip.
func (kept *keptBoxes) overlaps(b *Box) bool {
	first, last := max(0, kept.stripAt(b.X0-kept.widest)-1), kept.stripAt(b.X1)
	if first > last { // the box has negative width
		return false
	}
	for _, strip := range kept.strips[first : last+1] {
		for i := range strip {
			if strip[i].IOU(b) > kept.iouThreshold {
				return true
			}
		}
	}
	return false
}

// float64s returns the elements of a tensor of floats, in row-major order.
func float64s(ctx context.Context, t *tensor.Tensor) []float64 {
	flat := kit.CopyTo(ctx, t, tensor.New(tensor.Float64, t.Shape...))
	list, err := tensor.ToSlice[float64](flat)
	if err != nil {
		panic(err)
	}
	return list
}
