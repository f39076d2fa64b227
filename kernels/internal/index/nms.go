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
	MaxOutputBoxesPerClass int      `attr:"max_output_boxes_per_class" default:"0" range:"int64" doc:"maximum number of boxes to keep per class and image; 0 keeps no boxes"`
	IouThreshold           float64  `attr:"iou_threshold" default:"0" doc:"intersection over union above which the box with the lower score is dropped"`
	ScoreThreshold         *float64 `attr:"score_threshold" default:"none" doc:"score that boxes must exceed"`
	CenterPointBox         int      `attr:"center_point_box" default:"0" doc:"0: boxes are y1, x1, y2, x2 of two opposite corners in any order; 1: x, y of the centre, width, height"`
}

// NonMaxSuppression is ONNX's operator; PyTorch has no equivalent.
var NonMaxSuppression = dynamicOp(graph.SchemaOf[*nonMaxAttrs](), graph.Op{Semantics: graph.Semantics{
	Name: "non_max_suppression",
	Doc: "Keeps the boxes of each image and class, in descending order of score. A box is dropped if its overlap with a " +
		"kept box exceeds `iou_threshold`. `boxes` [N,B,4] and `scores` [N,C,B] give [n,3]: the indices of image, class " +
		"and box.",
	Params: []graph.Param{{Name: "boxes"}, {Name: "scores"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 5, 4), kit.F32(2, 3, 5)},
		Attrs: graph.Attrs{"max_output_boxes_per_class": 3, "iou_threshold": 0.5}}},
}}, outlineNonMaxSuppression, runNonMaxSuppression)

// outlineNonMaxSuppression checks a call of non_max_suppression and returns the outline of the result: its dtype and
// its known sizes.
func outlineNonMaxSuppression(c *graph.Call) ([]graph.PartialType, error) {
	if !c.Type(0).DType.IsFloat() || !c.Type(1).DType.IsFloat() {
		return nil, kit.NotImplementedBy("non_max_suppression", c.Type(0).DType)
	}
	return oneOutline(tensor.Int64, unknownSize, 3)
}

// runNonMaxSuppression computes the result of non_max_suppression.
func runNonMaxSuppression(ctx context.Context, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs, boxShape, scoreShape := kit.Attrs[*nonMaxAttrs](c), in[0].Shape, in[1].Shape
	if len(boxShape) != 3 || len(scoreShape) != 3 || boxShape[2] != 4 || boxShape[0] != scoreShape[0] ||
		boxShape[1] != scoreShape[2] {
		return nil, fmt.Errorf("non_max_suppression: expected boxes [N,B,4] and scores [N,C,B], got %s and %s",
			tensor.ListString(boxShape), tensor.ListString(scoreShape))
	}
	coordinates, scores := float64s(ctx, in[0]), float64s(ctx, in[1])
	images, classes, count := scoreShape[0], scoreShape[1], boxShape[1]
	boxes := make([]Box, count)
	var out []int64
	for image := range images {
		for i := range boxes {
			boxes[i] = NewBox(attrs.CenterPointBox != 0, [4]float64(coordinates[4*(image*count+i):]))
		}
		for class := range classes {
			classScores := scores[(image*classes+class)*count:][:count]
			for _, box := range Suppress(ctx, boxes, classScores, attrs.IouThreshold, attrs.ScoreThreshold,
				attrs.MaxOutputBoxesPerClass) {
				out = append(out, int64(image), int64(class), int64(box))
			}
		}
	}
	const columns = 3 // image, class and box
	t, err := tensor.FromSlice(out, len(out)/columns, columns)
	return []*tensor.Tensor{t}, err
}

type nmsAttrs struct {
	IouThreshold float64 `attr:"iou_threshold" doc:"intersection over union above which the box with the lower score is dropped"`
}

// Nms is torchvision's nms.
var Nms = dynamicOp(graph.SchemaOf[*nmsAttrs](), graph.Op{Semantics: graph.Semantics{
	Name: "nms",
	Doc: "Keeps boxes in descending order of score. A box is dropped if its overlap with a kept box exceeds " +
		"`iou_threshold`. `boxes` [n,4] of x1, y1, x2, y2 and `scores` [n] give the indices of the kept boxes.",
	Params:   []graph.Param{{Name: "boxes"}, {Name: "scores"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(5, 4), kit.F32(5)}, Attrs: graph.Attrs{"iou_threshold": 0.5}}},
}}, outlineNms, runNms)

// outlineNms checks a call of nms and returns the outline of the result: its dtype and its known sizes.
func outlineNms(c *graph.Call) ([]graph.PartialType, error) {
	if c.Type(0).DType != c.Type(1).DType {
		return nil, errors.New("dets should have the same type as scores")
	}
	if !c.Type(0).DType.IsFloat() {
		return nil, kit.NotImplementedBy("nms_kernel", c.Type(0).DType)
	}
	return oneOutline(tensor.Int64, unknownSize)
}

// runNms computes the result of nms.
func runNms(ctx context.Context, call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	boxShape, scores := in[0].Shape, in[1]
	if len(boxShape) != 2 || boxShape[1] != 4 || scores.Rank() != 1 || scores.Shape[0] != boxShape[0] {
		return nil, fmt.Errorf("boxes should be a 2d tensor with 4 columns and scores a 1d tensor of as many elements, "+
			"got %s and %s", tensor.ListString(boxShape), tensor.ListString(scores.Shape))
	}
	boxes, coordinates := make([]Box, boxShape[0]), float64s(ctx, in[0])
	for i := range boxes {
		corners := coordinates[4*i:]
		boxes[i] = Box{X0: corners[0], Y0: corners[1], X1: corners[2], Y1: corners[3]}
	}
	var minScore *float64 // none
	keptIndices := Suppress(ctx, boxes, float64s(ctx, scores), kit.Attrs[*nmsAttrs](call).IouThreshold, minScore,
		len(boxes))
	out := make([]int64, len(keptIndices))
	for k, box := range keptIndices {
		out[k] = int64(box)
	}
	return []*tensor.Tensor{int64Vector(out)}, nil
}
