package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type nonMaxAttrs struct {
	MaxOutputBoxesPerClass int      `attr:"max_output_boxes_per_class" default:"0" range:"int64" doc:"maximum number of boxes to keep per class and image; 0: none"`
	IouThreshold           float64  `attr:"iou_threshold" default:"0" doc:"intersection over union above which the box with the lower score is dropped"`
	ScoreThreshold         *float64 `attr:"score_threshold" default:"none" doc:"score that boxes must exceed"`
	CenterPointBox         int      `attr:"center_point_box" default:"0" doc:"0: boxes are y1, x1, y2, x2, corners in any order; 1: x, y of the centre, width, height"`
}

// NonMaxSuppression is ONNX's operator; PyTorch has no equivalent.
var NonMaxSuppression = dynamicOp(graph.SchemaOf[nonMaxAttrs](), graph.Op{Semantics: graph.Semantics{
	Name: "non_max_suppression",
	Doc: "Keeps, class by class, the boxes with the highest scores that do not overlap a better one too much: " +
		"`boxes` [N,B,4] and `scores` [N,C,B] give [n,3] of image, class and box.",
	Params: []graph.Param{{Name: "boxes"}, {Name: "scores"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 5, 4), kit.F32(2, 3, 5)},
		Attrs: graph.Attrs{"max_output_boxes_per_class": 3, "iou_threshold": 0.5}}},
}}, func(c *graph.Call) ([]graph.Outline, error) {
	if !c.Type(0).DType.IsFloat() || !c.Type(1).DType.IsFloat() {
		return nil, kit.NotImplementedBy("non_max_suppression", c.Type(0).DType)
	}
	return oneOutline(tensor.Int64, unknownSize, 3)
}, func(ctx context.Context, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs, b, s := kit.Attrs[nonMaxAttrs](c), in[0], in[1]
	if b.Rank() != 3 || s.Rank() != 3 || b.Shape[2] != 4 || b.Shape[0] != s.Shape[0] || b.Shape[1] != s.Shape[2] {
		return nil, fmt.Errorf("non_max_suppression: expected boxes [N,B,4] and scores [N,C,B], got %s and %s",
			tensor.ListString(b.Shape), tensor.ListString(s.Shape))
	}
	sides, scores := float64s(ctx, b), float64s(ctx, s)
	count := b.Shape[1]
	boxes := make([]Box, count)
	var out []int64
	for n := range s.Shape[0] {
		for i := range boxes {
			boxes[i] = NewBox(attrs.CenterPointBox != 0, [4]float64(sides[4*(n*count+i):]))
		}
		for k := range s.Shape[1] {
			list := scores[(n*s.Shape[1]+k)*count:][:count]
			for _, i := range Suppress(ctx, boxes, list, attrs.IouThreshold, attrs.ScoreThreshold,
				attrs.MaxOutputBoxesPerClass) {
				out = append(out, int64(n), int64(k), int64(i))
			}
		}
	}
	t, err := tensor.FromSlice(out, len(out)/3, 3)
	return []*tensor.Tensor{t}, err
})

type nmsAttrs struct {
	IouThreshold float64 `attr:"iou_threshold" doc:"intersection over union above which the box with the lower score is dropped"`
}

// Nms is torchvision's nms.
var Nms = dynamicOp(graph.SchemaOf[nmsAttrs](), graph.Op{Semantics: graph.Semantics{
	Name: "nms",
	Doc: "Keeps the boxes with the highest scores that do not overlap a better one too much: `boxes` [n,4] of x1, " +
		"y1, x2, y2 and `scores` [n] give indices, best first.",
	Params:   []graph.Param{{Name: "boxes"}, {Name: "scores"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(5, 4), kit.F32(5)}, Attrs: graph.Attrs{"iou_threshold": 0.5}}},
}}, func(c *graph.Call) ([]graph.Outline, error) {
	if c.Type(0).DType != c.Type(1).DType {
		return nil, errors.New("dets should have the same type as scores")
	}
	return oneOutline(tensor.Int64, unknownSize)
}, func(ctx context.Context, call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	b, scores := in[0], in[1]
	if b.Rank() != 2 || b.Shape[1] != 4 || scores.Rank() != 1 || scores.Shape[0] != b.Shape[0] {
		return nil, fmt.Errorf("boxes should be a 2d tensor with 4 columns and scores a 1d tensor of as many elements, "+
			"got %s and %s", tensor.ListString(b.Shape), tensor.ListString(scores.Shape))
	}
	boxes, sides := make([]Box, b.Shape[0]), float64s(ctx, b)
	for i := range boxes {
		v := [4]float64(sides[4*i:])
		boxes[i] = Box{v[0], v[1], v[2], v[3]}
	}
	kept := Suppress(ctx, boxes, float64s(ctx, scores), kit.Attrs[nmsAttrs](call).IouThreshold, nil, len(boxes))
	out := make([]int64, len(kept))
	for k, i := range kept {
		out[k] = int64(i)
	}
	return []*tensor.Tensor{int64Vector(out)}, nil
})
