package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type viewAttrs struct {
	Size  []sym.Int    `attr:"size" default:"none" doc:"sizes of the result; one of them may be -1"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype in which the bytes are read; not together with size"`
}

// View is Tensor.view. It takes either sizes or a dtype.
var View = viewOp(graph.SchemaOf[*viewAttrs](), graph.Op{Semantics: graph.Semantics{
	Name: "view",
	Doc: "Views self in another shape with the same number of elements. It fails if a copy is needed; `reshape` " +
		"copies.\nWith `dtype` it interprets self's bytes as elements of that dtype; the last size changes with the size " +
		"of elements.",
	Examples: append(kit.OneExample(kit.F32(4, 6), graph.Attrs{"size": []int{2, -1, 3}}),
		kit.OneExample(kit.F32(4, 6), graph.Attrs{"dtype": "int16"})...),
}, Facts: graph.Facts{Reshapes: true, SizesAttr: "size"}}, inferView)

// inferView returns the type of the view. The unused parameter is the size of self's storage (see [viewTypeFunc]).
func inferView(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	attrs := kit.Attrs[*viewAttrs](c)
	switch {
	case (attrs.Size == nil) == (attrs.DType == tensor.Invalid):
		return self, errors.New("view(): takes either size or dtype")
	case attrs.Size != nil:
		return self.View(attrs.Size)
	}
	return viewDType(self, attrs.DType)
}

// viewDType returns the type of a view that reads the bytes of a value as elements of another dtype
// (at::native::view_dtype). self is the type of the value. For example, float32 [4, 6] is int16 [4, 12].
func viewDType(self tensor.Type, dtype tensor.DType) (tensor.Type, error) {
	oldSize, newSize, last := self.DType.Size(), dtype.Size(), self.Rank()-1
	mismatch := func(quantity string, expected int, got sym.Int) error {
		return fmt.Errorf("%s must be %d to view %s as %s (different element sizes), but got %v",
			quantity, expected, self.DType.TorchName(), dtype.TorchName(), got)
	}
	out := tensor.Type{DType: dtype, Shape: slices.Clone(self.Shape), Strides: slices.Clone(self.Strides),
		Offset: self.Offset}
	switch {
	case oldSize == newSize:
		return out, nil
	case last < 0:
		return self, fmt.Errorf("self.dim() cannot be 0 to view %s as %s (different element sizes)", self.DType.TorchName(),
			dtype.TorchName())
	case self.Strides[last].Ne(sym.Of(1)).Holds():
		return self, mismatch("self.stride(-1)", 1, self.Strides[last])
	case oldSize > newSize: // an old element becomes several new elements
		ratio := sym.Of(oldSize / newSize)
		out.Offset, out.Shape[last] = out.Offset.Mul(ratio), out.Shape[last].Mul(ratio)
		for i := range last {
			out.Strides[i] = out.Strides[i].Mul(ratio)
		}
		return out, nil
	}
	ratio := sym.Of(newSize / oldSize) // number of old elements per new element
	divide := func(quantity string, number *sym.Int) error {
		if remainder := number.Mod(ratio); remainder.Ne(sym.Int{}).Holds() {
			return mismatch(fmt.Sprintf("%s %% %v", quantity, ratio), 0, remainder)
		}
		*number = number.Div(ratio)
		return nil
	}
	if err := divide("self.size(-1)", &out.Shape[last]); err != nil {
		return self, err
	}
	if err := divide("self.storage_offset()", &out.Offset); err != nil {
		return self, err
	}
	for i := range last {
		if err := divide(fmt.Sprintf("self.stride(%d)", i), &out.Strides[i]); err != nil {
			return self, err
		}
	}
	return out, nil
}

// ViewAs is Tensor.view_as.
var ViewAs = viewOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
	Name:     "view_as",
	Doc:      "Views self in the shape of `other`.",
	Params:   []graph.Param{kit.Self, kit.Other},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(4, 6), kit.F32(2, 12)}}},
}, Facts: graph.Facts{Reshapes: true}}, inferViewAs)

func inferViewAs(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	return self.View(c.Type(1).Shape)
}

// Detach and Alias return self as a view.
var (
	Detach = selfViewOp("detach", "Returns self; without gradients there is nothing to detach.")
	Alias  = selfViewOp("alias", "Returns self.")
)

// selfViewOp defines an op that returns self as a view.
func selfViewOp(name, doc string) *graph.Op {
	return viewOp(kit.NoAttrs, graph.Op{
		Semantics: graph.Semantics{Name: name, Doc: doc, Examples: kit.OneExample(kit.F32(2, 3), nil)},
		Facts:     graph.Facts{Identity: true},
	},
		func(_ *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) { return self, nil })
}

type asStridedAttrs struct {
	Size   []sym.Int `attr:"size" doc:"sizes of the result"`
	Stride []sym.Int `attr:"stride" doc:"strides of the result, in elements"`
	Offset *sym.Int  `attr:"storage_offset" default:"none" doc:"offset in the storage, in elements; default: self's offset"`
}

// AsStrided is Tensor.as_strided.
var AsStrided = viewOp(graph.SchemaOf[*asStridedAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name: "as_strided",
		Doc: "Views self's storage with any sizes, strides and offset.\n" +
			"The result reads the storage directly, so its values depend on the layout of self.",
		Examples: kit.OneExample(kit.F32(4, 6), graph.Attrs{"size": []int{3, 3}, "stride": []int{1, 6}, "storage_offset": 2}),
	},
	Facts: graph.Facts{ReadsStorage: true},
}, inferAsStrided)

func inferAsStrided(c *graph.Call, self tensor.Type, storage storageSize) (tensor.Type, error) {
	attrs := kit.Attrs[*asStridedAttrs](c)
	offset := self.Offset
	if attrs.Offset != nil {
		offset = *attrs.Offset
	}
	return self.AsStrided(attrs.Size, attrs.Stride, offset, storage)
}
