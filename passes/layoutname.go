package passes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file names layouts for explanations of copies: see [Explainer].

// layoutOf names the layout of a value; see [Explainer]. The dimensions have the names of an image's dimensions if the
// value is an image, a copy of an image, or a value whose copy is an image.
func (e *Explainer) layoutOf(v *graph.Value) string {
	isImage := e.problem.Image
	isImageCopy := v.Node != nil && v.Node.Op.Identity && v.Node.In[0].Value != nil && isImage(v.Node.In[0].Value)
	place := ""
	if v.Place() != tensor.Host && e.plan.device != nil {
		place = " on " + e.plan.device.Name()
	}
	hasImageCopy := slices.ContainsFunc(e.uses.readers.At(v), func(n *graph.Node) bool {
		return n.Op.Identity && isImage(n.Out[0])
	})
	return layoutText(v.Meta, isImageCopy || isImage(v) || hasImageCopy) + place
}

// layoutText names the order of dimensions, and the strides that differ from the strides of a dense value in this
// order.
func layoutText(meta tensor.Meta, isImage bool) string {
	rank := meta.Rank()
	names := make([]string, rank)
	for dim := range names {
		names[dim] = fmt.Sprint("dimension ", dim)
	}
	if isImage = isImage && (rank == 4 || rank == 5); isImage {
		names = strings.Split(map[int]string{4: "N C H W", 5: "N C D H W"}[rank], " ")
	}
	order, dense := tensor.OrderOf(meta)
	for dim, size := range meta.Shape {
		if size > 1 && meta.Strides[dim] == 0 {
			return "strides " + tensor.ListString(meta.Strides) // repeated elements have no order
		}
	}
	text := orderText(order, names, isImage)
	if dense {
		return text
	}
	var gaps []string
	denseStride := 1 // the stride of the next dimension, fastest first, if there is no gap before it
	for _, dim := range slices.Backward(order.Dims()) {
		if meta.Shape[dim] == 1 {
			continue
		}
		if meta.Strides[dim] != denseStride {
			gaps = append(gaps, fmt.Sprintf("%d along %s", meta.Strides[dim], names[dim]))
		}
		denseStride = meta.Strides[dim] * meta.Shape[dim]
	}
	return text + " with stride " + strings.Join(gaps, " and ")
}

// orderText names an order of dimensions. names has the names of the dimensions, which are used for images.
func orderText(order tensor.Order, names []string, isImage bool) string {
	switch {
	case isImage:
		list := make([]string, len(order))
		for i, dim := range order.Dims() {
			list[i] = names[dim]
		}
		return "(" + strings.Join(list, ",") + ")"
	case order.IsRowMajor():
		return "row-major order"
	case order.Rank() == 2:
		return "column-major order"
	case order.Format() != tensor.NoFormat:
		return order.String() + " order"
	}
	return "dimension order (" + order.String() + ")"
}
