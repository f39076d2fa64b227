package view

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type repeatAttrs struct {
	Repeats []sym.Int `attr:"repeats" doc:"number of repetitions of each dimension; additional numbers add leading dimensions"`
}

type tileAttrs struct {
	Dims []sym.Int `attr:"dims" doc:"number of repetitions of each dimension; missing leading numbers are 1"`
}

// Repeat is Tensor.repeat. Tile is torch.tile.
var (
	Repeat = repeatOp(graph.SchemaOf[*repeatAttrs](), "repeat",
		"Repeats self along its dimensions and along new leading ones.",
		graph.Attrs{"repeats": []int{2, 1, 3}},
		func(c *graph.Call) []sym.Int { return kit.Attrs[*repeatAttrs](c).Repeats })
	Tile = repeatOp(graph.SchemaOf[*tileAttrs](), "tile",
		"Repeats self along its dimensions; dims may be shorter than the shape.",
		graph.Attrs{"dims": []int{2}},
		func(c *graph.Call) []sym.Int {
			dims := kit.Attrs[*tileAttrs](c).Dims
			return slices.Concat(slices.Repeat(sym.Ints(1), max(0, c.Type(0).Rank()-len(dims))), dims)
		})
)

// repeatOp defines an op that repeats self. repeats returns the number of repetitions along each dimension of the
// result.
func repeatOp(attrs *graph.Schema, name, doc string, example graph.Attrs,
	repeats func(c *graph.Call) []sym.Int) *graph.Op {
	infer := func(c *graph.Call) ([]graph.Result, error) { return inferRepeat(c, c.Type(0), repeats(c)) }
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name:   name,
			Doc:    doc,
			Params: []graph.Param{kit.Self},
			Infer:  infer,
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				inferred, err := infer(c)
				if err != nil {
					return nil, err
				}
				return []*tensor.Tensor{repeatRef(in[0], kit.KnownSizes(inferred[0].Type.Shape))}, nil
			},
			Examples: kit.OneExample(kit.F32(2, 3), example),
		},
		Facts: graph.Facts{Parallel: repeatLoops, WritesAnyDenseLayout: true},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) { return compileRepeat(c, kit.KnownSizes(repeats(c))) },
		},
	})
}

// inferRepeat infers the type of self repeated along its dimensions. If there are more repeats than dimensions, the
// result has additional leading dimensions.
func inferRepeat(call *graph.Call, self tensor.Type, repeats []sym.Int) ([]graph.Result, error) {
	leading := len(repeats) - self.Rank() // number of additional dimensions
	if leading < 0 {
		return nil, errors.New("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
	}
	shape := slices.Clone(repeats)
	for d, size := range self.Shape {
		if kit.RepeatTooLarge(size, repeats[leading+d]) {
			return nil, errors.New("numel: integer multiplication overflow")
		}
		shape[leading+d] = repeats[leading+d].Mul(size)
	}
	out, err := kit.FreshType(self.DType, shape)
	return call.NewResult(out), err
}

// repeatRef repeats self so that the result has the given shape. An index of self is an index of the result modulo the
// sizes of self.
func repeatRef(self *tensor.Tensor, shape []int) *tensor.Tensor {
	out := tensor.Zeros(self.DType, shape...)
	leading := out.Rank() - self.Rank()
	sourceIndex := make([]int, self.Rank())
	kit.EachIndex(shape, func(index []int) {
		for d := range sourceIndex {
			sourceIndex[d] = index[leading+d] % self.Shape[d]
		}
		out.Set(self.At(sourceIndex...), index...)
	})
	return out
}

// compileRepeat returns a kernel that makes one copy. Each dimension of the output is viewed as two dimensions, [number
// of repetitions, size in the operand]. The operand gets the same shape, with stride 0 along the repetitions.
func compileRepeat(c *graph.Call, repeats []int) (*graph.Kernel, error) {
	dst, src := kit.OutBuffer(c, 0), kit.InBuffer(c, 0)
	if dst.Meta.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	leading := len(repeats) - src.Meta.Rank()
	var out, in tensor.Meta
	for d, repetitions := range repeats {
		size, stride := 1, 0
		if d >= leading {
			size, stride = src.Meta.Shape[d-leading], src.Meta.Strides[d-leading]
		}
		out.Shape = append(out.Shape, repetitions, size)
		out.Strides = append(out.Strides, size*dst.Meta.Strides[d], dst.Meta.Strides[d])
		in.Strides = append(in.Strides, 0, stride)
	}
	in.Shape = out.Shape
	in.DType, out.DType = src.Meta.DType, dst.Meta.DType
	dst.Meta, src.Meta = out, in
	return copies.Kernel(copies.Job{Dst: dst, Src: src}), nil
}

// repeatLoops returns the loops over the dimensions that are not repeated, or none if there are additional leading
// dimensions. [graph.DimsExcept] omits repeated dimensions, because the operand has another size there.
func repeatLoops(c *graph.Call) []graph.Parallel {
	if c.Meta(0).Rank() != c.Out[0].Rank() {
		return nil
	}
	return graph.DimsExcept(c)
}
