package index

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type nonMaxAttrs struct {
	MaxOutputBoxesPerClass int      `attr:"max_output_boxes_per_class" default:"0" doc:"boxes to keep of a class of an image"`
	IouThreshold           float64  `attr:"iou_threshold" default:"0" doc:"share of intersection in union above which the box of the lower score goes"`
	ScoreThreshold         *float64 `attr:"score_threshold" default:"none" doc:"score that boxes must exceed"`
	CenterPointBox         int      `attr:"center_point_box" default:"0" doc:"0: boxes are y1, x1, y2, x2, corners in any order; 1: x, y of the centre, width, height"`
}

// NonMaxSuppression is ONNX's; PyTorch has none.
var NonMaxSuppression = eagerOp[nonMaxAttrs](graph.Op{
	Name: "non_max_suppression", Doc: "Keeps the boxes of the highest scores, class by class, that overlap no better " +
		"one too much: boxes [N,B,4] and scores [N,C,B] give [n,3] of image, class and box.",
	Params: []graph.Param{{Name: "boxes"}, {Name: "scores"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 5, 4), kit.F32(2, 3, 5)},
		Attrs: graph.Attrs{"max_output_boxes_per_class": 3, "iou_threshold": 0.5}}},
}, func(c *graph.Call) ([]graph.Outline, error) {
	if !c.Type(0).DType.IsFloat() || !c.Type(1).DType.IsFloat() {
		return nil, kit.NotImplementedBy("non_max_suppression", c.Type(0).DType)
	}
	return oneOutline(tensor.Int64, -1, 3)
}, func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	a, b, s := kit.Attrs[nonMaxAttrs](c), in[0], in[1]
	if b.Rank() != 3 || s.Rank() != 3 || b.Shape[2] != 4 || b.Shape[0] != s.Shape[0] || b.Shape[1] != s.Shape[2] {
		return nil, fmt.Errorf("non_max_suppression: expected boxes [N,B,4] and scores [N,C,B], got %s and %s",
			tensor.ListString(b.Shape), tensor.ListString(s.Shape))
	}
	b, s = b.CopyTo(tensor.New(tensor.Float64, b.Shape...)), s.CopyTo(tensor.New(tensor.Float64, s.Shape...))
	var out []int64
	for n := range s.Shape[0] {
		boxes := make([]nmsBox, b.Shape[1])
		for i := range boxes {
			boxes[i] = newNMSBox(a.CenterPointBox != 0, b.At(n, i, 0).Float(), b.At(n, i, 1).Float(), b.At(n, i, 2).Float(),
				b.At(n, i, 3).Float())
		}
		for k := range s.Shape[1] {
			kept := suppress(boxes, func(i int) float64 {
				return s.At(n, k, i).Float()
			}, a.IouThreshold, a.ScoreThreshold, a.MaxOutputBoxesPerClass)
			for _, i := range kept {
				out = append(out, int64(n), int64(k), int64(i))
			}
		}
	}
	t, err := tensor.FromSlice(out, len(out)/3, 3)
	return []*tensor.Tensor{t}, err
})

type nmsAttrs struct {
	IouThreshold float64 `attr:"iou_threshold" doc:"share of intersection in union above which the box of the lower score goes"`
}

// Nms is torchvision's nms.
var Nms = eagerOp[nmsAttrs](graph.Op{
	Name: "nms", Doc: "Keeps the boxes of the highest scores that overlap no better one too much: boxes [n,4] of x1, " +
		"y1, x2, y2 and scores [n] give indices, best first.",
	Params:   []graph.Param{{Name: "boxes"}, {Name: "scores"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(5, 4), kit.F32(5)}, Attrs: graph.Attrs{"iou_threshold": 0.5}}},
}, func(c *graph.Call) ([]graph.Outline, error) {
	if c.Type(0).DType != c.Type(1).DType {
		return nil, errors.New("dets should have the same type as scores")
	}
	return oneOutline(tensor.Int64, -1)
}, func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	b, s := in[0], in[1]
	if b.Rank() != 2 || b.Shape[1] != 4 || s.Rank() != 1 || s.Shape[0] != b.Shape[0] {
		return nil, fmt.Errorf("boxes should be a 2d tensor with 4 columns and scores a 1d tensor of as many elements, "+
			"got %s and %s", tensor.ListString(b.Shape), tensor.ListString(s.Shape))
	}
	b = b.CopyTo(tensor.New(tensor.Float64, b.Shape...))
	boxes := make([]nmsBox, b.Shape[0])
	for i := range boxes {
		v := [4]float64{b.At(i, 0).Float(), b.At(i, 1).Float(), b.At(i, 2).Float(), b.At(i, 3).Float()}
		boxes[i] = nmsBox{v[0], v[1], v[2], v[3]}
	}
	kept := suppress(boxes, func(i int) float64 {
		return s.At(i).Float()
	}, kit.Attrs[nmsAttrs](c).IouThreshold, nil, len(boxes))
	out := make([]int64, len(kept))
	for k, i := range kept {
		out[k] = int64(i)
	}
	return []*tensor.Tensor{vectorOf(out)}, nil
})

type nmsBox struct{ x0, y0, x1, y1 float64 }

func newNMSBox(center bool, a, b, c, d float64) nmsBox {
	if center {
		return nmsBox{a - c/2, b - d/2, a + c/2, b + d/2}
	}
	return nmsBox{min(a, c), min(b, d), max(a, c), max(b, d)}
}

// iou is the area that two boxes share, divided by the area of both.
func (b nmsBox) iou(o nmsBox) float64 {
	w, h := min(b.x1, o.x1)-max(b.x0, o.x0), min(b.y1, o.y1)-max(b.y0, o.y0)
	if !(w > 0 && h > 0) {
		return 0
	}
	both := w * h
	return both / ((b.x1-b.x0)*(b.y1-b.y0) + (o.x1-o.x0)*(o.y1-o.y0) - both)
}

// suppress returns the boxes to keep, best first, at most n.
func suppress(boxes []nmsBox, score func(i int) float64, iou float64, least *float64, n int) []int {
	var order, kept []int
	for i := range boxes {
		if least == nil || score(i) > *least {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := score(a), score(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for _, i := range order {
		if len(kept) >= n {
			break
		}
		if !slices.ContainsFunc(kept, func(k int) bool { return boxes[k].iou(boxes[i]) > iou }) {
			kept = append(kept, i)
		}
	}
	return kept
}
