package index

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type oneHotAttrs struct {
	NumClasses sym.Int `attr:"num_classes" default:"-1" doc:"size of the new dimension; -1: one more than the maximum index, computed in the run"`
	Dim        int     `attr:"dim" default:"-1" doc:"position of the new dimension in the result"`
}

// OneHot is torch.one_hot with ONNX's axis and values. For example, the indices [2 0] with 3 classes give
// [[0 0 1] [1 0 0]].
var OneHot = kit.Define[*oneHotAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "one_hot",
		Doc: "Adds a dimension of size `num_classes`. Each element of self is an index into this dimension: the element of " +
			"the result at this index is on, and the others are off.\n`values` has two elements: the off value and the on " +
			"value. If it is not given, they are " +
			"0 and 1 of int64, and indices outside 0 to num_classes-1 are errors. If it is given, negative indices count " +
			"from the end, and no element is on for an index outside the range.",
		Params: []graph.Param{{Name: "self", IndexBound: classIndexBound}, {Name: "values", Optional: true}},
		Infer:  inferOneHot,
		Ref:    refOneHot,
		Examples: []graph.Example{{In: []tensor.Meta{kit.I64(2, 3)}, Attrs: graph.Attrs{"num_classes": 4}},
			{In: []tensor.Meta{kit.I64(2, 3), kit.F32(2)}, Attrs: graph.Attrs{"num_classes": 3, "dim": 1}}},
	},
	Facts:     graph.Facts{Parallel: oneHotLoops},
	Lowerings: graph.Lowerings{Compile: compileOneHot, RunDynamic: runOneHot},
})

// oneHotLoops returns the parallel loops of a call: over the dimensions of self.
func oneHotLoops(c *graph.Call) []graph.Parallel {
	newDim := kit.WrappedDim(kit.Attrs[*oneHotAttrs](c).Dim, c.Out[0].Rank())
	if newDim == nil {
		return nil
	}
	const self = 0
	var loops []graph.Parallel
	for dim := range c.Meta(self).Rank() {
		resultDim := dim
		if dim >= newDim[0] {
			resultDim++
		}
		loops = append(loops, kit.LoopOver(c, self, dim, resultDim))
	}
	return loops
}

// classIndexBound returns the bound on the indices of one_hot ([graph.Param.IndexBound]). If num_classes is -1, the
// size of the result follows from the greatest index. Random inputs then get small indices, so that the result is
// small.
func classIndexBound(c *graph.Call) int {
	classCount := kit.KnownSize(kit.Attrs[*oneHotAttrs](c).NumClasses)
	switch {
	case c.HasOperand(1): // indices outside the range are valid
		return noBound
	case classCount < 0:
		const classesOfRandomInputs = 16
		return classesOfRandomInputs
	}
	return classCount
}

// inferOneHot infers the result. Its size along the new dimension is unknown if the indices determine it.
func inferOneHot(call *graph.Call) ([]graph.Result, error) {
	attrs, self := kit.Attrs[*oneHotAttrs](call), call.Type(0)
	if self.DType != tensor.Int64 && (self.DType != tensor.Int32 || !call.HasOperand(1)) {
		return nil, errors.New("one_hot is only applicable to index tensor.")
	}
	dtype := tensor.Int64
	if call.HasOperand(1) {
		values := call.Type(1)
		if values.Rank() != 1 || !kit.SizeIs(values.Shape[0], 2) {
			return nil, fmt.Errorf("one_hot: Expected values of shape [2], got %s", tensor.Sizes(values.Shape))
		}
		dtype = values.DType
	}
	dim, err := tensor.WrapDim(attrs.Dim, self.Rank()+1)
	if err != nil {
		return nil, err
	}
	hasClassCount := kit.SizeAtLeast(attrs.NumClasses, 1)
	switch {
	case !hasClassCount && kit.IsEmpty(self):
		return nil, errors.New("Can not infer total number of classes from empty tensor.")
	case !hasClassCount && kit.SizeIs(attrs.NumClasses, classesFromIndices):
		sizes := withUnknownSize(slices.Insert(slices.Clone(self.Shape), dim, attrs.NumClasses), dim)
		return []graph.Result{rowMajorOutline(dtype, sizes...).Result()}, nil
	case !hasClassCount:
		return nil, errors.New("Class values must be smaller than num_classes.")
	}
	out, err := kit.FreshType(dtype, slices.Insert(slices.Clone(self.Shape), dim, attrs.NumClasses))
	return call.NewResult(out), err
}

// compileOneHot returns the kernel for a known number of classes. A line has the elements of the result for one index.
func compileOneHot(call *graph.Call) (*graph.Kernel, error) {
	attrs, self, out := kit.Attrs[*oneHotAttrs](call), call.Meta(0), call.Out[0]
	dim, err := tensor.WrapDim(attrs.Dim, out.Rank())
	if err != nil || out.Numel() == 0 {
		return &graph.Kernel{}, err
	}
	indices := tensor.Meta{DType: self.DType, Shape: out.Shape, Strides: slices.Insert(slices.Clone(self.Strides), dim, 0)}
	lines := kit.NewLineSet(out.Shape, dim, out, indices)
	step, classCount := kit.ByteStride(out, dim), kit.KnownSize(attrs.NumClasses)
	zero, one := tensor.IntScalar(0).Tensor(out.DType), tensor.IntScalar(1).Tensor(out.DType)
	copyElements := kit.RowConverter(out.DType, out.DType)
	// offsets are the byte offsets of a line in the result and in indices; the last two elements are not used.
	return &graph.Kernel{Phases: []graph.Phase{lines.Phase(classCount, func(mem *graph.Mem, offsets [4]int) error {
		class := loadClass(unsafe.Add(mem.Ptrs[1], offsets[1]), self.DType)
		offValue, onValue := zero.Pointer(), one.Pointer()
		if call.HasOperand(1) {
			offValue = mem.Ptrs[2]
			onValue = unsafe.Add(offValue, kit.ByteStride(call.Meta(1), 0))
			if class < 0 {
				class += classCount
			}
		} else if err := checkClass(class, classCount); err != nil {
			return err
		}
		dst := unsafe.Add(mem.Ptrs[0], offsets[0])
		kit.ForEachBlock(mem.Context, classCount, func(begin, end int) {
			const valueStep = 0 // repeats the value
			copyElements(unsafe.Add(dst, begin*step), offValue, step, valueStep, end-begin)
		})
		if class >= 0 && class < classCount {
			kit.CopyElement(unsafe.Add(dst, class*step), onValue, out.DType.Size())
		}
		return nil
	})}}, nil
}

// loadClass returns the index at an address. Its dtype is int64 or int32.
func loadClass(address unsafe.Pointer, dtype tensor.DType) int {
	if dtype == tensor.Int64 {
		return int(*(*int64)(address))
	}
	return int(*(*int32)(address))
}

// checkClass returns PyTorch's error if a class is outside 0 to classCount-1.
func checkClass(class, classCount int) error {
	switch {
	case class < 0:
		return errors.New("Class values must be non-negative.")
	case class >= classCount:
		return errors.New("Class values must be smaller than num_classes.")
	}
	return nil
}

// classesFromIndices is the value of num_classes if the indices determine the number of classes.
const classesFromIndices = -1

// withClasses returns the call with a known number of classes. If the indices determine the number, it is one more than
// the greatest index.
func withClasses(c *graph.Call, index *tensor.Tensor) *graph.Call {
	attrs := *kit.Attrs[*oneHotAttrs](c)
	if kit.KnownSize(attrs.NumClasses) != classesFromIndices {
		return c
	}
	classCount := 1 // the number of classes if all indices are negative
	kit.EachIndex(index.Shape, func(coords []int) { classCount = max(classCount, int(index.At(coords...).Int())+1) })
	attrs.NumClasses = sym.Of(classCount)
	return &graph.Call{In: c.In, Attrs: &attrs}
}

// runOneHot compiles and runs a call whose number of classes depends on the indices.
func runOneHot(rt graph.Runtime, call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	call = withClasses(call, in[0])
	results, err := inferOneHot(call)
	if err != nil {
		return nil, err
	}
	call.Out = []tensor.Meta{results[0].Meta()}
	kernel, err := compileOneHot(call)
	if err != nil {
		return nil, err
	}
	return runSerially(contextOf(rt), kernel, call.Out[0], in)
}

// refOneHot is the reference of one_hot.
func refOneHot(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	call = withClasses(call, in[0])
	results, err := inferOneHot(call)
	if err != nil {
		return nil, err
	}
	attrs, result := kit.Attrs[*oneHotAttrs](call), results[0].Meta()
	classes := kit.KnownSize(attrs.NumClasses)
	dim, err := tensor.WrapDim(attrs.Dim, result.Rank())
	if err != nil {
		return nil, err
	}
	if !call.HasOperand(1) {
		kit.EachIndex(in[0].Shape, func(coords []int) {
			switch class := in[0].At(coords...).Int(); {
			case class < 0:
				err = errors.New("Class values must be non-negative.")
			case class >= int64(classes) && err == nil:
				err = errors.New("Class values must be smaller than num_classes.")
			}
		})
		if err != nil {
			return nil, err
		}
	}
	out := tensor.Zeros(result.DType, result.Shape...)
	kit.EachIndex(result.Shape, func(coords []int) {
		class := int(in[0].At(slices.Delete(slices.Clone(coords), dim, dim+1)...).Int())
		offValue, onValue := tensor.IntScalar(0), tensor.IntScalar(1)
		if call.HasOperand(1) {
			offValue, onValue = in[1].At(0), in[1].At(1)
			if class < 0 {
				class += classes
			}
		}
		value := offValue
		if class == coords[dim] {
			value = onValue
		}
		out.Set(value, coords...)
	})
	return []*tensor.Tensor{out}, nil
}
