package view

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type splitAttrs struct {
	SplitSize graph.IntOrInts `attr:"split_size" range:"int64" doc:"size of a part, or a list of the sizes of all parts"`
	Dim       int             `attr:"dim" default:"0" doc:"dimension to split"`
}

// Split is Tensor.split with one size, or with a list (split.sizes).
var Split = multiViewOp(graph.SchemaOf[*splitAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name: "split",
		Doc: "Splits a dimension into parts of size `split_size` (the last one may be smaller), or into parts of the " +
			"listed sizes.",
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(5, 2)}, Attrs: graph.Attrs{"split_size": 2}},
			{In: []tensor.Meta{kit.F32(5, 2)}, Attrs: graph.Attrs{"split_size": []int{1, 4}}}},
	},
	Facts: graph.Facts{ImageRole: graph.ImagePreserving},
}, func(c *graph.Call, self tensor.Type) ([]tensor.Type, error) {
	attrs := kit.Attrs[*splitAttrs](c)
	if attrs.SplitSize.List != nil {
		return self.SplitSizes(attrs.SplitSize.List, attrs.Dim)
	}
	return self.Split(attrs.SplitSize.One, attrs.Dim)
})

type splitSizesAttrs struct {
	SplitSizes []sym.Int `attr:"split_sizes" doc:"sizes of the parts, whose sum is the dimension's size"`
	Dim        int       `attr:"dim" default:"0" doc:"dimension to split"`
}

// SplitWithSizes is torch.split_with_sizes.
var SplitWithSizes = multiViewOp(graph.SchemaOf[*splitSizesAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "split_with_sizes",
	Doc:      "Splits a dimension into parts of the given sizes.",
	Examples: kit.OneExample(kit.F32(5, 2), graph.Attrs{"split_sizes": []int{1, 4}}),
}}, func(c *graph.Call, self tensor.Type) ([]tensor.Type, error) {
	attrs := kit.Attrs[*splitSizesAttrs](c)
	return self.SplitSizes(attrs.SplitSizes, attrs.Dim)
})

type chunkAttrs struct {
	Chunks int `attr:"chunks" range:"int64" doc:"maximum number of parts"`
	Dim    int `attr:"dim" default:"0" doc:"dimension to split"`
}

// Chunk is Tensor.chunk.
var Chunk = multiViewOp(graph.SchemaOf[*chunkAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name:     "chunk",
		Doc:      "Splits a dimension into parts of equal size, at most `chunks`; the last may be smaller.",
		Examples: kit.OneExample(kit.F32(5, 2), graph.Attrs{"chunks": 3}),
	},
	Facts: graph.Facts{ImageRole: graph.ImagePreserving},
}, func(c *graph.Call, self tensor.Type) ([]tensor.Type, error) {
	attrs := kit.Attrs[*chunkAttrs](c)
	return self.Chunk(attrs.Chunks, attrs.Dim)
})

type unbindAttrs struct {
	Dim int `attr:"dim" default:"0" doc:"dimension to remove"`
}

// Unbind is Tensor.unbind.
var Unbind = multiViewOp(graph.SchemaOf[*unbindAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "unbind",
	Doc:      "Returns every slice along a dimension as a separate value.",
	Examples: kit.OneExample(kit.F32(3, 2), nil),
}}, func(c *graph.Call, self tensor.Type) ([]tensor.Type, error) {
	dim, err := tensor.WrapDim(kit.Attrs[*unbindAttrs](c).Dim, self.Rank())
	switch {
	case err != nil:
		return nil, err
	case self.Rank() == 0:
		return nil, errors.New("Dimension specified as 0 but tensor has no dimensions")
	}
	parts := self.Shape[dim].Specialize() // the number of results must be known
	if parts > maxViews {
		return nil, fmt.Errorf("unbind into %d slices: at most %d are supported", parts, maxViews)
	}
	out := make([]tensor.Type, parts)
	for i := range out {
		if out[i], err = self.Select(dim, sym.Of(i)); err != nil {
			return nil, err
		}
	}
	return out, nil
})
