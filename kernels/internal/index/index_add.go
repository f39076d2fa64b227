package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type indexAddAttrs struct {
	Dim   int           `attr:"dim" doc:"dimension to index"`
	Alpha tensor.Scalar `attr:"alpha" default:"1" doc:"factor of source"`
}

func (a *indexAddAttrs) indexedDim() (int, bool) { return a.Dim, true }

// indexWrite describes how a call combines the source with slices of the result.
type indexWrite struct {
	dim   int // may be negative, as in the attribute
	mode  combineMode
	alpha tensor.Scalar // factor of the source
}

// IndexAdd, IndexCopy and IndexFill copy self and write to slices of the copy. For dim 0, and each position j of index:
//
//	index_add:   result[index[j]] += alpha * source[j]
//	index_copy:  result[index[j]] = source[j]
//	index_fill:  result[index[j]] = value
var (
	IndexAdd = indexWriteOp(graph.SchemaOf[*indexAddAttrs](), "index_add",
		"Copies self and adds the slices of `source` to its slices along `dim`, at the positions in a one-dimensional "+
			"`index`.",
		func(c *graph.Call) indexWrite {
			attrs := kit.Attrs[*indexAddAttrs](c)
			return indexWrite{dim: attrs.Dim, mode: combineAdd, alpha: attrs.Alpha}
		})
	IndexCopy = indexWriteOp(graph.SchemaOf[*dimAttrs](), "index_copy",
		"Copies self and replaces its slices along `dim`, at the positions in a one-dimensional `index`, by the slices "+
			"of `source`.",
		replacingWrite)
	IndexFill = indexWriteOp(graph.SchemaOf[*dimAttrs](), "index_fill",
		"Copies self and fills its slices along `dim`, at the positions in a one-dimensional `index`, with a number or "+
			"0-dim value.",
		replacingWrite)
)

// replacingWrite returns the indexWrite of a call of index_copy or index_fill.
func replacingWrite(c *graph.Call) indexWrite {
	return indexWrite{dim: kit.Attrs[*dimAttrs](c).Dim, mode: combineSet, alpha: tensor.IntScalar(1)}
}

// indexWriteOp defines index_add, index_copy or index_fill. writeOf returns the indexWrite of a call.
func indexWriteOp(attrs *graph.Schema, name, doc string, writeOf func(c *graph.Call) indexWrite) *graph.Op {
	isFill := name == "index_fill"
	source := graph.Param{Name: "source"}
	example := []tensor.Meta{kit.F32(3, 4, 2), kit.I64(2), kit.F32(3, 2, 2).WithStrides([]int{1, 3, 6})}
	if isFill {
		source = graph.Param{Name: "value", AcceptsNumber: true}
		example[2] = kit.F32()
	}
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc + " A negative index counts from the end.",
			Params: []graph.Param{kit.Self, indexParam, source},
			Infer: func(call *graph.Call) ([]graph.Result, error) {
				write, selfType := writeOf(call), call.Type(0)
				dim, err := tensor.WrapDim(write.dim, selfType.Rank())
				if err == nil {
					err = checkIndexWrite(name, call, dim, isFill, write.alpha)
				}
				if isFill { // aten fills a clone
					return call.NewResult(rule.PreserveType(selfType)), err
				}
				return call.NewResult(selfType.RowMajor()), err
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				return indexWriteRef(in, writeOf(c))
			},
			Examples: []graph.Example{{In: example, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true, Parallel: kit.LoopsExcept(func(c *graph.Call) []int {
			return []int{writeOf(c).dim}
		})},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				return compileIndexWrite(c, writeOf(c))
			},
		},
	})
}

// checkIndexWrite returns PyTorch's error if the call is invalid. isFill is set for index_fill.
func checkIndexWrite(name string, call *graph.Call, dim int, isFill bool, alpha tensor.Scalar) error {
	self, index, src := call.Type(0), call.Type(1), call.Type(2)
	if index.Rank() > 1 {
		return fmt.Errorf("%s(): Index is supposed to be a vector", name)
	}
	if err := checkIndexDType(name, index.DType); err != nil {
		return err
	}
	// No index of an empty dimension is valid. If the slices have no elements, only index_add rejects the indices.
	rejectsIndices := func() bool {
		sliceShape := slices.Delete(slices.Clone(self.Shape), dim, dim+1)
		return name == "index_add" || !kit.SizeIs(tensor.Product(sliceShape), 0)
	}
	if kit.SizeIs(kit.SizeAtDim(self, dim), 0) && !kit.IsEmpty(index) && rejectsIndices() {
		return fmt.Errorf("%s(): index out of range: dimension %d has no elements", name, dim)
	}
	if isFill {
		return checkFillValue(call, self, src)
	}
	if err := kit.CheckNumberFits(alpha, self.DType); err != nil {
		return err
	}
	return checkSource(name, self, src, dim, index.Numel())
}

// checkFillValue returns PyTorch's error if index_fill cannot write the value to self.
func checkFillValue(call *graph.Call, self, value tensor.Type) error {
	switch {
	case value.DType.IsComplex() && !self.DType.IsComplex():
		return errors.New("index_fill_(): Converting complex Scalar to non-complex type is not supported")
	case value.Rank() > 0:
		return fmt.Errorf("index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
			value.Rank())
	case call.In[2].Kind == graph.NumberArg:
		return kit.CheckNumberFits(call.In[2].Number, self.DType)
	}
	return nil
}

// checkSource checks the source of index_add or index_copy. It returns PyTorch's error if the dtype or the shape of the
// slices does not match self, or if the number of slices is not the number of indices.
func checkSource(name string, self, src tensor.Type, dim int, indexCount sym.Int) error {
	if src.DType != self.DType {
		return fmt.Errorf("%s(): self (%s) and source (%s) must have the same scalar type", name, self.DType.TorchName(),
			src.DType.TorchName())
	}
	if max(1, src.Rank()) != max(1, self.Rank()) {
		return errors.New(name + "(): When source and destination are not scalars, their dimensionality must match.")
	}
	if size := kit.SizeAtDim(src, dim); size.Ne(indexCount).Holds() {
		return fmt.Errorf("%s(): Number of indices (%v) should be equal to source.size(dim): (%v)", name, indexCount, size)
	}
	for d := range self.Shape {
		if d != dim && src.Shape[d].Ne(self.Shape[d]).Holds() {
			return fmt.Errorf("%s(): Source/destination tensor must have same slice shapes. Destination slice shape: %s at "+
				"dimension %d and source slice shape: %s at dimension %d.",
				name, tensor.Sizes(self.Shape), dim, tensor.Sizes(src.Shape), dim)
		}
	}
	return nil
}

// compileIndexWrite returns a kernel that copies self and then writes the slices. An indexed walk (walk.go) over the
// source writes them. Its operands are the source, the table, which is the result, and the index. Its lookup reads an
// index and gives the position in dimension dim of the table.
func compileIndexWrite(call *graph.Call, write indexWrite) (*graph.Kernel, error) {
	out, index, src := call.Out[0], call.Meta(1), call.Meta(2)
	kernel := copySelfKernel(call)
	source := kit.InBuffer(call, 2)
	switch arg := call.In[2]; {
	case arg.Kind == graph.NumberArg:
		source = kit.DataBuffer(arg.Number.Tensor(out.DType))
	case src.DType != out.DType:
		source = convertValue(kernel, out.DType, src.DType)
	}
	if index.Numel() == 0 || out.Numel() == 0 {
		return kernel, nil
	}
	dim, err := tensor.WrapDim(write.dim, out.Rank())
	if err != nil {
		return nil, err
	}
	if out.Rank() == 0 { // a 0-dim value counts as a vector of one element
		out.Shape, out.Strides = []int{1}, []int{0}
	}
	shape := slices.Clone(out.Shape) // of the walk: the shape of the source, to which a number is broadcast
	shape[dim] = index.Numel()
	sourceOperand := walkOperand{source, make([]int, len(shape))} // strides of 0 repeat a number or a 0-dim value
	if !source.IsInKernel() {                                     // not a plain number, which is part of the kernel
		copy(sourceOperand.byteStrides, kit.ByteStrides(src))
	}
	indexOperand := walkOperand{kit.InBuffer(call, 1), make([]int, len(shape))}
	if index.Rank() == 1 {
		indexOperand.byteStrides[dim] = kit.ByteStride(index, 0)
	}
	// The walk does not move along dim of the table: the lookup gives the position.
	table := walkOperand{kit.OutBuffer(call, 0), withoutStride(kit.ByteStrides(out), dim)}
	walk := &indexedWalk{shape: shape, operands: []walkOperand{sourceOperand, table, indexOperand},
		lookups: []lookup{lookupAlong(out, index, dim)}, writesTable: true}
	kernel.Phases = append(kernel.Phases, walk.phase(scatterRowLoops(out.DType, write.mode, write.alpha)))
	return kernel, nil
}

// convertValue adds a phase that converts operand 2, a 0-dim value, to a dtype in scratch memory, and returns the
// buffer of the converted value. The phase is necessary even if the index is empty, because a value that does not fit
// the dtype is always an error.
func convertValue(kernel *graph.Kernel, dtype, from tensor.DType) kit.Buffer {
	converted := kit.ScratchBuffer(0, tensor.New(dtype))
	kernel.Phases = append(kernel.Phases, graph.Phase{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
		item, err := convertedItem(dtype, from, m.Ptrs[3]) // Ptrs has the result, self, the index and the value
		if err == nil {
			kit.CopyElement(converted.Address(m), item.Pointer(), dtype.Size())
		}
		return err
	}})
	kernel.Scratch = converted.Meta.Bytes()
	return converted
}

// indexWriteRef is the reference of index_add, index_copy and index_fill.
func indexWriteRef(in []*tensor.Tensor, write indexWrite) ([]*tensor.Tensor, error) {
	dim, err := tensor.WrapDim(write.dim, in[0].Rank())
	if err != nil {
		return nil, err
	}
	out := in[0].CopyTo(tensor.New(in[0].DType, in[0].Shape...))
	if in[2].Rank() == 0 && in[2].DType != out.DType {
		if err := kit.CheckNumberFits(in[2].At(), out.DType); err != nil {
			return nil, err
		}
	}
	src := in[2].CopyTo(tensor.New(out.DType, in[2].Shape...))
	flatIndex, err := kit.ReshapeRowMajor(context.Background(), in[1], in[1].Numel())
	if err != nil {
		return nil, err
	}
	if out.Numel() == 0 { // PyTorch does not check the indices
		return []*tensor.Tensor{out}, nil
	}
	sliceShape := slices.Clone(out.Shape)
	if len(sliceShape) > 0 {
		sliceShape[dim] = 1
	}
	for j := range in[1].Numel() {
		i, err := refIndex(flatIndex, sizeAt(out.Meta, dim), dim, j)
		if err != nil {
			return nil, err
		}
		// Write slice j of the source to slice i of the result.
		kit.EachIndex(sliceShape, func(coords []int) {
			target, source := slices.Clone(coords), slices.Clone(coords)
			if len(coords) > 0 {
				target[dim], source[dim] = i, j
			}
			if src.Rank() != out.Rank() { // a 0-dim value, or a vector of one element for a 0-dim self
				source = make([]int, src.Rank())
			}
			out.Set(refCombine(out.DType, write.mode, write.alpha, out.At(target...), src.At(source...)), target...)
		})
	}
	return []*tensor.Tensor{out}, nil
}
