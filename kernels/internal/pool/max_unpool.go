package pool

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type maxUnpoolAttrs struct {
	OutputSize []sym.Int `attr:"output_size" doc:"sizes of the planes of the result"`
}

type maxUnpool3dAttrs struct {
	OutputSize []sym.Int `attr:"output_size" doc:"sizes of the volumes of the result"`
	Stride     []int     `attr:"stride" default:"1" doc:"has no effect; PyTorch only checks sizes with it"`
	Padding    []int     `attr:"padding" default:"0" doc:"has no effect; PyTorch only checks sizes with it"`
}

// Max unpoolings invert max poolings with indices: each element is written to the position of the maximum. For example,
// the elements [5 9] with the indices [1 2] give [0 5 9 0] for the output size 4.
var (
	MaxUnpool1d = maxUnpoolOp(graph.SchemaOf[*maxUnpoolAttrs](), "max_unpool1d",
		"Writes the elements of self [N, C, L] or [C, L] to the positions given by `indices` in sequences of "+
			"`output_size` zeros. Among duplicate indices, the last wins.",
		1, func(c *graph.Call) []sym.Int { return kit.Attrs[*maxUnpoolAttrs](c).OutputSize })
	MaxUnpool2d = maxUnpoolOp(graph.SchemaOf[*maxUnpoolAttrs](), "max_unpool2d",
		"Writes the elements of self [N, C, H, W] or [C, H, W] to the positions given by `indices` in planes of "+
			"`output_size` zeros. Among duplicate indices, the last wins.",
		2, func(c *graph.Call) []sym.Int { return kit.Attrs[*maxUnpoolAttrs](c).OutputSize })
	MaxUnpool3d = maxUnpoolOp(graph.SchemaOf[*maxUnpool3dAttrs](), "max_unpool3d",
		"Writes the elements of self [N, C, D, H, W] or [C, D, H, W] to the positions given by `indices` in "+
			"volumes of `output_size` zeros. Among duplicate indices, the last wins.",
		3, func(c *graph.Call) []sym.Int { return kit.Attrs[*maxUnpool3dAttrs](c).OutputSize })
)

// maxUnpoolOp defines an unpooling over the last `dims` dimensions. These dimensions form a plane: a sequence, an image
// or a volume. size returns the attribute output_size of a call.
func maxUnpoolOp(attrs *graph.Schema, name, doc string, dims int, size func(c *graph.Call) []sym.Int) *graph.Op {
	infer := func(c *graph.Call) ([]graph.Result, error) {
		result, err := maxUnpoolType(dims, size(c), c.Type(0), c.Type(1))
		if attrs3d, ok := c.Attrs.(*maxUnpool3dAttrs); ok && err == nil {
			if stride := attrs3d.Stride; len(stride) > 0 && slices.Min(stride) < 1 {
				err = fmt.Errorf("strides should be greater than zero, but got stride: %s", tensor.ListString(stride))
			}
		}
		return c.NewResult(result), err
	}
	planeSize := func(c *graph.Call) int { return tensor.Numel(kit.KnownSizes(size(c))) }
	exampleShape := []int{2, 3, 2, 2, 2}[:2+dims]
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self, {Name: "indices", IndexBound: planeSize}},
			Infer: infer,
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				return refMaxUnpool(dims, size(c), in[0], in[1])
			},
			Examples: []graph.Example{
				{In: []tensor.Meta{tensor.New(tensor.Float32, exampleShape...), tensor.New(tensor.Int64, exampleShape...)},
					Attrs: graph.Attrs{"output_size": []int{4, 4, 3}[:dims]}}},
		},
		Facts: graph.Facts{Parallel: kit.LoopsExceptLast(dims), FixedLayoutReason: "indices are positions in planes"},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) { return compileMaxUnpool(c, dims) },
		},
	})
}

// maxUnpoolType makes PyTorch's checks and returns the type of the result.
func maxUnpoolType(dims int, size []sym.Int, self, index tensor.Type) (tensor.Type, error) {
	switch {
	case len(size) != dims:
		return self, fmt.Errorf("There should be exactly %s elements %s in output_size, but got %d elements.",
			[]string{"", "one", "two", "three"}[dims],
			[]string{"", "(width)", "(height, width)", "(depth, height, width)"}[dims], len(size))
	case index.DType != tensor.Int64:
		return self, fmt.Errorf("elements in indices should be type int64 but got: %s", index.DType.TorchName())
	case self.Rank() != dims+1 && self.Rank() != dims+2:
		return self, fmt.Errorf("Input to max_unpooling%dd should be a %dd or %dd Tensor, but got a tensor with %d "+
			"dimensions.", dims, dims+1, dims+2, self.Rank())
	case !tensor.SameSizes(self.Shape, index.Shape):
		return self, fmt.Errorf("Expected shape of indices to be same as that of the input tensor (%s) but got indices "+
			"tensor with shape: %s", tensor.Sizes(self.Shape), tensor.Sizes(index.Shape))
	}
	for d := 1; d < self.Rank(); d++ {
		if kit.SizeIs(self.Shape[d], 0) {
			return self, fmt.Errorf("max_unpooling%dd_forward_out_cpu(): Expected input to have non-zero size for non-batch "+
				"dimensions, but got %s with dimension %d being empty.", dims, tensor.Sizes(self.Shape), d)
		}
	}
	for _, n := range size {
		if kit.IsNegative(n) {
			return self, fmt.Errorf("Trying to create tensor with negative dimension %v: %s", n, tensor.Sizes(size))
		}
	}
	if !self.DType.IsFloat() {
		return self, kit.NotImplementedBy(fmt.Sprintf("max_unpool%dd", max(dims, 2)), self.DType)
	}
	format := tensor.Contiguous
	if dims == 2 {
		format = self.SuggestMemoryFormat(exactMatch) // false: strides only need to resemble the format
	}
	return tensor.NewTypeFormat(self.DType, kit.ReplaceSizes(self.Shape, self.Rank()-dims, size...), format)
}

// compileMaxUnpool makes the kernel of an unpooling. Operands that are not row-major are copied first. A result that is
// not row-major is copied last.
func compileMaxUnpool(call *graph.Call, dims int) (*graph.Kernel, error) {
	out := call.Out[0]
	if out.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	builder := copies.NewKernelBuilder(call)
	buffers := []kit.Buffer{builder.Result(0, out.DType), builder.ToRowMajor(builder.Operand(0), out.DType),
		builder.ToRowMajor(builder.Operand(1), tensor.Int64)}
	leadDims := out.Rank() - dims
	unpool := unpooling{size: out.Shape[leadDims:], outElements: tensor.Numel(out.Shape[leadDims:]),
		inElements: tensor.Numel(call.Meta(0).Shape[leadDims:])}
	scatterPlanes := unpoolPlanes[uint16] // elements are only copied: any type of their size suffices
	switch out.DType.Size() {
	case 4:
		scatterPlanes = unpoolPlanes[uint32]
	case 8:
		scatterPlanes = unpoolPlanes[uint64]
	}
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, copies.ChunkedPhase(tensor.Numel(out.Shape[:leadDims]),
		unpool.inElements+unpool.outElements,
		func(m *graph.Mem, begin, end int) error {
			return scatterPlanes(&unpool, m, begin, end)
		}))
	return builder.Kernel()
}

// unpooling describes how the elements of the operand's planes are scattered to the result's planes.
type unpooling struct {
	size                    []int // sizes of the spatial dimensions of the result
	inElements, outElements int   // elements per plane of the operand, and of the result
}

// unpoolPlanes scatters the elements of planes [begin, end).
func unpoolPlanes[T uint16 | uint32 | uint64](p *unpooling, m *graph.Mem, begin, end int) error {
	for plane := begin; plane < end; plane++ {
		out := unsafe.Slice((*T)(kit.AddressOf[T](m.Ptrs[0], plane*p.outElements)), p.outElements)
		in := unsafe.Slice((*T)(kit.AddressOf[T](m.Ptrs[1], plane*p.inElements)), p.inElements)
		index := unsafe.Slice((*int64)(kit.AddressOf[int64](m.Ptrs[2], plane*p.inElements)), p.inElements)
		clear(out)
		for i, target := range index {
			if uint64(target) >= uint64(p.outElements) { // also if target is negative
				return maxUnpoolRangeError(int(target), p.size)
			}
			out[target] = in[i]
		}
	}
	return nil
}

// maxUnpoolRangeError returns the error for an index that is not in [0, Numel(size)), where size has the spatial sizes
// of the result. As in PyTorch, the message does not close its parenthesis.
func maxUnpoolRangeError(index int, size []int) error {
	return fmt.Errorf("Found an invalid max index: %d (output volumes are of size %s", index,
		strings.ReplaceAll(strings.Trim(tensor.ListString(size), "[]"), ", ", "x"))
}

// refMaxUnpool is the reference of an unpooling. size is the attribute output_size.
func refMaxUnpool(dims int, size []sym.Int, self, indices *tensor.Tensor) ([]*tensor.Tensor, error) {
	result, err := maxUnpoolType(dims, size, self.Meta.Type(), indices.Meta.Type())
	if err != nil {
		return nil, err
	}
	resultMeta := kit.KnownMeta(result)
	out := tensor.Zeros(resultMeta.DType, resultMeta.Shape...)
	if resultMeta.Numel() == 0 { // PyTorch does not check the indices
		return []*tensor.Tensor{out}, nil
	}
	leadDims := resultMeta.Rank() - dims // batch, if any, and channels
	plane := resultMeta.Shape[leadDims:]
	kit.EachIndex(self.Shape, func(index []int) {
		target := int(indices.At(index...).Int()) // row-major index in the plane of the result
		if target < 0 || target >= tensor.Numel(plane) {
			err = maxUnpoolRangeError(target, plane)
			return
		}
		out.Set(self.At(index...), append(slices.Clone(index[:leadDims]), kit.Unravel(target, plane)...)...)
	})
	return []*tensor.Tensor{out}, err
}
