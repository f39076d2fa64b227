package kernels

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// showFunc maps the type of a view's operand to the type of the view. storage is the
// number of elements in the operand's storage.
type showFunc func(c *graph.Call, t tensor.Type, storage sym.Int) (tensor.Type, error)

// viewOp defines an op whose result shares the storage of its first operand.
func viewOp[A any](o graph.Op, show showFunc) *graph.Op {
	if o.Params == nil {
		o.Params = []graph.Param{self}
	}
	o.Kind = graph.View
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		t, err := show(c, c.Type(0), sym.Of(c.In[0].Value.StorageLen()))
		return []graph.Result{{Type: t, Alias: 0}}, err
	}
	o.Compile = func(c *graph.Call) (*graph.Kernel, error) { return copyShown(c, o.Infer) }
	o.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		shown, err := show(c, in[0].Meta.Type(), sym.Of(in[0].Storage().Len()/in[0].DType.Size()))
		if err != nil {
			return nil, err
		}
		m, _ := shown.Meta()
		t, err := in[0].View(m)
		return []*tensor.Tensor{t}, err
	}
	return define[A](o)
}

// copyShown compiles views that have been pinned to layouts of their own: the elements
// that the views show are copied.
func copyShown(c *graph.Call, infer func(*graph.Call) ([]graph.Result, error)) (*graph.Kernel, error) {
	res, err := infer(c)
	if err != nil {
		return nil, err
	}
	var jobs []copyJob
	for i, r := range res {
		if c.Meta(0).Numel() == 0 && r.Meta().Numel() > 0 {
			return nil, errors.New("a view that finds elements where its operand has none cannot be copied")
		}
		jobs = append(jobs, copyJob{dst: outSide(c, i), src: inSide(c, 0).show(r.Meta())})
	}
	return copyKernel(jobs...)
}

// f32 returns a row-major float32 meta for examples.
func f32(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }

// nhwc returns a channels-last float32 meta for examples.
func nhwc(n, c, h, w int) tensor.Meta {
	m, err := tensor.NewFormat(tensor.Float32, []int{n, c, h, w}, tensor.ChannelsLast)
	if err != nil {
		panic(err)
	}
	return m
}

// oneExample returns the example of a call with one operand.
func oneExample(m tensor.Meta, a graph.Attrs) []graph.Example {
	return []graph.Example{{In: []tensor.Meta{m}, Attrs: a}}
}

type viewAttrs struct {
	Size  []sym.Int    `attr:"size" default:"none" doc:"sizes of the result; one of them may be -1"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype in which the bytes are read, in place of a size"`
}

// View is Tensor.view, of sizes or of a dtype.
var View = viewOp[viewAttrs](graph.Op{
	Name: "view",
	Doc: "Shows self in another shape with the same number of elements. Refused where only a copy could: see reshape.\n" +
		"With dtype it shows self's bytes as elements of that dtype; the last size changes where these are smaller or greater.",
	Examples: append(oneExample(f32(4, 6), graph.Attrs{"size": []int{2, -1, 3}}), oneExample(f32(4, 6), graph.Attrs{"dtype": "int16"})...),
}, func(c *graph.Call, t tensor.Type, _ sym.Int) (tensor.Type, error) {
	a := attrs[viewAttrs](c)
	switch {
	case (a.Size == nil) == (a.DType == tensor.Invalid):
		return t, errors.New("view(): takes either size or dtype")
	case a.Size != nil:
		return t.View(a.Size)
	}
	return viewDType(t, a.DType)
})

// viewDType is at::native::view_dtype.
func viewDType(t tensor.Type, d tensor.DType) (tensor.Type, error) {
	old, size, last := t.DType.Size(), d.Size(), t.Rank()-1
	refuse := func(what string, by int, got sym.Int) error {
		return fmt.Errorf("%s must be %d to view %s as %s (different element sizes), but got %v",
			what, by, t.DType.TorchName(), d.TorchName(), got)
	}
	out := tensor.Type{DType: d, Shape: slices.Clone(t.Shape), Strides: slices.Clone(t.Strides), Offset: t.Offset}
	switch {
	case old == size:
		return out, nil
	case last < 0:
		return t, fmt.Errorf("self.dim() cannot be 0 to view %s as %s (different element sizes)", t.DType.TorchName(), d.TorchName())
	case t.Strides[last].Ne(sym.Of(1)).Holds():
		return t, refuse("self.stride(-1)", 1, t.Strides[last])
	case old > size:
		by := sym.Of(old / size)
		out.Offset, out.Shape[last] = out.Offset.Mul(by), out.Shape[last].Mul(by)
		for i := range last {
			out.Strides[i] = out.Strides[i].Mul(by)
		}
		return out, nil
	}
	by := sym.Of(size / old)
	fits := func(what string, s *sym.Int) error {
		if rest := s.Mod(by); rest.Ne(sym.Int{}).Holds() {
			return refuse(fmt.Sprintf("%s %% %v", what, by), 0, rest)
		}
		*s = s.Div(by)
		return nil
	}
	if err := fits("self.size(-1)", &out.Shape[last]); err != nil {
		return t, err
	}
	if err := fits("self.storage_offset()", &out.Offset); err != nil {
		return t, err
	}
	for i := range last {
		if err := fits(fmt.Sprintf("self.stride(%d)", i), &out.Strides[i]); err != nil {
			return t, err
		}
	}
	return out, nil
}

// ViewAs is Tensor.view_as.
var ViewAs = viewOp[none](graph.Op{
	Name:     "view_as",
	Doc:      "Shows self in the shape of other.",
	Params:   []graph.Param{self, other},
	Examples: []graph.Example{{In: []tensor.Meta{f32(4, 6), f32(2, 12)}}},
}, func(c *graph.Call, t tensor.Type, _ sym.Int) (tensor.Type, error) { return t.View(c.Type(1).Shape) })

// Detach and Alias are the identity as a view.
var (
	Detach = identity("detach", "Shows self as it is: without gradients there is nothing to detach.")
	Alias  = identity("alias", "Shows self as it is.")
)

func identity(name, doc string) *graph.Op {
	return viewOp[none](graph.Op{Name: name, Doc: doc, Identity: true, Examples: oneExample(f32(2, 3), nil)},
		func(_ *graph.Call, t tensor.Type, _ sym.Int) (tensor.Type, error) { return t, nil })
}

type asStridedAttrs struct {
	Size   []sym.Int `attr:"size" doc:"sizes of the result"`
	Stride []sym.Int `attr:"stride" doc:"strides of the result, in elements"`
	Offset *sym.Int  `attr:"storage_offset" default:"none" doc:"offset in the storage, in elements; none: self's own"`
}

// AsStrided is Tensor.as_strided.
var AsStrided = viewOp[asStridedAttrs](graph.Op{
	Name: "as_strided",
	Doc: "Shows the storage that self lies in with any sizes, strides and offset.\n" +
		"The values depend on the layout of self's storage, not on self's elements.",
	Storage:  true,
	Examples: oneExample(f32(4, 6), graph.Attrs{"size": []int{3, 3}, "stride": []int{1, 6}, "storage_offset": 2}),
}, func(c *graph.Call, t tensor.Type, storage sym.Int) (tensor.Type, error) {
	a := attrs[asStridedAttrs](c)
	offset := t.Offset
	if a.Offset != nil {
		offset = *a.Offset
	}
	return t.AsStrided(a.Size, a.Stride, offset, storage)
})
