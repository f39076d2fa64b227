package index

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type selectScatterAttrs struct {
	Dim   int     `attr:"dim" doc:"dimension to index"`
	Index sym.Int `attr:"index" doc:"index of the slice to replace; a negative index counts from the end"`
}

type sliceScatterAttrs struct {
	Dim   int      `attr:"dim" default:"0" doc:"dimension to slice"`
	Start *sym.Int `attr:"start" default:"none" range:"int64" doc:"first index; a negative index counts from the end; default: 0"`
	End   *sym.Int `attr:"end" default:"none" range:"int64" doc:"exclusive end; default: the size"`
	Step  sym.Int  `attr:"step" default:"1" range:"int64" doc:"step between indices, positive"`
}

type diagonalScatterAttrs struct {
	Offset int `attr:"offset" default:"0" range:"int64" doc:"diagonal: 0 is the main one, positive ones are above it"`
	Dim1   int `attr:"dim1" default:"0" doc:"dimension of rows"`
	Dim2   int `attr:"dim2" default:"1" doc:"dimension of columns"`
}

type storageScatterAttrs struct {
	Size   []sym.Int `attr:"size" doc:"sizes of the view"`
	Stride []sym.Int `attr:"stride" doc:"strides of the view, in elements"`
	Offset *sym.Int  `attr:"storage_offset" default:"none" doc:"first element of the view; default: 0"`
}

// SelectScatter, SliceScatter and DiagonalScatter replace the elements of a view.
var (
	SelectScatter = viewScatterOp("select_scatter", "one index of a dimension", graph.Attrs{"dim": 1, "index": -1},
		[]tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.F32(2, 4, 5)},
		removedDimsLoops(func(a *selectScatterAttrs) []int { return []int{a.Dim} }),
		func(self tensor.Type, a *selectScatterAttrs) (tensor.Type, error) { return self.Select(a.Dim, a.Index) })
	SliceScatter = viewScatterOp("slice_scatter", "every `step`-th index of a dimension, from `start` to `end`, "+
		"exclusive,",
		graph.Attrs{"dim": 1, "start": 1, "end": 4, "step": 2}, []tensor.Meta{kit.F32(3, 4), kit.F32(3, 2)},
		kit.LoopsExcept(func(c *graph.Call) []int { return []int{kit.Attrs[*sliceScatterAttrs](c).Dim} }),
		func(self tensor.Type, a *sliceScatterAttrs) (tensor.Type, error) {
			return self.Slice(a.Dim, a.Start, a.End, a.Step)
		})
	DiagonalScatter = viewScatterOp("diagonal_scatter", "a diagonal of two dimensions", graph.Attrs{"offset": 1},
		[]tensor.Meta{kit.F32(3, 4).WithStrides([]int{1, 3}), kit.F32(3)},
		removedDimsLoops(func(a *diagonalScatterAttrs) []int { return []int{a.Dim1, a.Dim2} }),
		func(self tensor.Type, a *diagonalScatterAttrs) (tensor.Type, error) {
			return self.Diagonal(a.Offset, a.Dim1, a.Dim2)
		})
)

// StorageScatter returns the op storage_scatter. It is a part of as_strided_scatter and not in the catalogue. It copies
// a vector, which is the storage of a value, and replaces the elements of a view. The strides of the view count
// elements of the vector, so the vector may have any stride in memory. If elements of the view share an address, the
// last one in row-major order is stored. A view with a dimension of stride 0 and at least two indices is an error.
var StorageScatter = sync.OnceValue(func() *graph.Op {
	return viewScatterOp("storage_scatter", "a view with any sizes, strides and offset",
		graph.Attrs{"size": []int{2, 2}, "stride": []int{4, 1}, "storage_offset": 3},
		[]tensor.Meta{kit.F32(12), kit.F32(2, 2)}, nil /* a vector has no loops */, storageView)
})

// removedDimsLoops returns [graph.Facts].Parallel of an op whose src lacks some dimensions of self, and has the others
// in the same order. These others are the loops. removedDims returns the dimensions that src lacks.
func removedDimsLoops[A any](removedDims func(attrs A) []int) func(*graph.Call) []graph.Parallel {
	return func(c *graph.Call) []graph.Parallel {
		var removed []int
		for _, dim := range removedDims(kit.Attrs[A](c)) {
			removed = append(removed, kit.WrappedDim(dim, c.Out[0].Rank())...)
		}
		loops := graph.DimsExcept(c, removed...)
		for _, loop := range loops {
			dims := loop.OperandDims // of self and src
			dims[1] = dims[0]
			for _, dim := range removed {
				if dim < dims[0] {
					dims[1]--
				}
			}
		}
		return loops
	}
}

// storageView returns the type of the view that storage_scatter replaces.
func storageView(storage tensor.Type, a *storageScatterAttrs) (tensor.Type, error) {
	offset := sym.Int{}
	if a.Offset != nil {
		offset = *a.Offset
	}
	view, err := storage.AsStrided(a.Size, a.Stride, offset, storage.Numel())
	if err != nil {
		return view, err
	}
	for dim := range view.Shape {
		view.Strides[dim] = view.Strides[dim].Mul(storage.Strides[0])
	}
	view.Offset = storage.Offset.Add(offset.Mul(storage.Strides[0]))
	return view, nil
}

// checkDistinct returns PyTorch's error for a written view with a dimension of stride 0 and more than one index.
func checkDistinct(view tensor.Type) error {
	for dim, size := range view.Shape {
		if kit.SizeIs(view.Strides[dim], 0) && kit.SizeAtLeast(size, 2) && !kit.IsEmpty(view) {
			return errors.New("unsupported operation: more than one element of the written-to tensor refers to a single " +
				"memory location. Please clone() the tensor before performing the operation.")
		}
	}
	return nil
}

// viewFunc returns the type of a view of self.
type viewFunc[A any] func(self tensor.Type, attrs A) (tensor.Type, error)

// viewScatterOp defines an op that copies self and writes src into a view of the copy. viewDoc describes the view. The
// op has one example, with the attributes `example` and the given operands. loops is its [graph.Facts].Parallel, or
// nil.
func viewScatterOp[A any](name, viewDoc string, example graph.Attrs, operands []tensor.Meta,
	loops func(*graph.Call) []graph.Parallel, viewOf viewFunc[A]) *graph.Op {
	return kit.Define[A](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: "Copies self and replaces " + viewDoc + " by `src`, converted to the dtype of self.",
			Params:   []graph.Param{kit.Self, {Name: "src"}},
			Infer:    viewOf.inferScatter,
			Ref:      viewOf.scatterRef,
			Examples: []graph.Example{{In: operands, Attrs: example}},
		},
		Facts:     graph.Facts{Parallel: loops, WritesAnyDenseLayout: true},
		Lowerings: graph.Lowerings{Compile: viewOf.scatterKernel},
	})
}

// inferScatter is the Infer function of viewScatterOp.
func (viewOf viewFunc[A]) inferScatter(c *graph.Call) ([]graph.Result, error) {
	out := rule.PreserveType(c.Type(0))
	view, err := viewOf(out, kit.Attrs[A](c))
	if src := c.Type(1); err == nil && !tensor.SameSizes(view.Shape, src.Shape) {
		err = fmt.Errorf("expected src to have a size equal to the slice of self. src size = %s, slice size = %s",
			tensor.Sizes(src.Shape), tensor.Sizes(view.Shape))
	}
	if err == nil {
		err = checkDistinct(view)
	}
	return c.NewResult(out), err
}

// scatterRef is the reference of viewScatterOp.
func (viewOf viewFunc[A]) scatterRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := in[0].CopyTo(tensor.New(in[0].DType, in[0].Shape...))
	viewType, err := viewOf(out.Meta.Type(), kit.Attrs[A](c))
	if err != nil {
		return nil, err
	}
	view, err := out.View(kit.KnownMeta(viewType))
	if err != nil {
		return nil, err
	}
	tensor.CopyElements(view, in[1])
	return []*tensor.Tensor{out}, nil
}

// scatterKernel returns the kernel of viewScatterOp.
func (viewOf viewFunc[A]) scatterKernel(c *graph.Call) (*graph.Kernel, error) {
	view, err := viewOf(c.Out[0].Type(), kit.Attrs[A](c))
	if err != nil {
		return nil, err
	}
	kernel, out := copySelfKernel(c), kit.OutBuffer(c, 0)
	out.Meta.Offset = 0 // the offset of the view counts from the first element of out
	viewMeta := kit.KnownMeta(view)
	if viewMeta.OverlapsItself() {
		kernel.Phases = append(kernel.Phases, writeInOrder(out.View(viewMeta), kit.InBuffer(c, 1)))
		return kernel, nil
	}
	write := copies.Kernel(copies.Job{Dst: out.View(viewMeta), Src: kit.InBuffer(c, 1)})
	kernel.Phases = append(kernel.Phases, write.Phases...)
	kernel.WorkerScratch = max(kernel.WorkerScratch, write.WorkerScratch)
	kernel.Scratch = max(kernel.Scratch, write.Scratch)
	return kernel, nil
}

// writeInOrder returns a phase that copies src to dst in row-major order. Several elements of dst may share an address.
func writeInOrder(dst, src kit.Buffer) graph.Phase {
	lastDim := dst.Meta.Rank() - 1
	lines := kit.NewLineSet(dst.Meta.Shape, lastDim, dst.Meta, src.Meta)
	copyRow := kit.RowConverter(dst.Meta.DType, src.Meta.DType)
	length, dstStep, srcStep := dst.Meta.Shape[lastDim], kit.ByteStride(dst.Meta, lastDim),
		kit.ByteStride(src.Meta, lastDim)
	return graph.Phase{Chunks: 1, Run: func(mem *graph.Mem, _ int) error {
		for i := range lines.Count {
			mem.CheckContext()
			offsets := lines.Offsets(i)
			dstLine, srcLine := unsafe.Add(dst.Address(mem), offsets[0]), unsafe.Add(src.Address(mem), offsets[1])
			kit.ForEachBlock(mem.Context, length, func(begin, end int) {
				copyRow(unsafe.Add(dstLine, begin*dstStep), unsafe.Add(srcLine, begin*srcStep), dstStep, srcStep, end-begin)
			})
		}
		return nil
	}}
}
