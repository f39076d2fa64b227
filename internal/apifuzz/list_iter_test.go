package apifuzz

import (
	"reflect"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/axes"
)

var iterFunctions = map[string]any{
	"iter.Apply1":          iter.Apply1[float32, float32],
	"iter.Apply1Out2":      iter.Apply1Out2[float32, float32, float32],
	"iter.Apply2":          iter.Apply2[float32, float32, float32],
	"iter.Apply3":          iter.Apply3[float32, float32, float32, float32],
	"iter.Binary":          iter.Binary,
	"iter.BinaryFloat":     iter.BinaryFloat,
	"iter.CastMeta":        iter.CastMeta,
	"iter.Comparison":      iter.Comparison,
	"iter.Copy":            iter.Copy,
	"iter.FoldOf":          iter.FoldOf[float32, float32, float32],
	"iter.Folding":         iter.Folding[float32, float32],
	"iter.InternalOverlap": iter.InternalOverlap,
	"iter.Kernel1":         iter.Kernel1[float32, float32],
	"iter.Kernel1Out2":     iter.Kernel1Out2[float32, float32, float32],
	"iter.Kernel2":         iter.Kernel2[float32, float32, float32],
	"iter.Kernel2Out2":     iter.Kernel2Out2[float32, float32, float32, float32],
	"iter.Kernel3":         iter.Kernel3[float32, float32, float32, float32],
	"iter.New":             iter.New,
	"iter.Nullary":         iter.Nullary,
	"iter.Number":          iter.Number,
	"iter.Of":              iter.Of,
	"iter.OfTensor":        iter.OfTensor,
	"iter.OverlapOf":       iter.OverlapOf,
	"iter.PreserveMeta":    iter.PreserveMeta,
	"iter.ReduceMask":      iter.ReduceMask,
	"iter.ReduceOutput":    iter.ReduceOutput,
	"iter.ReduceShape":     iter.ReduceShape,
	"iter.Reduction":       iter.Reduction,
	"iter.ResultType":      iter.ResultType,
	"iter.Resumes":         iter.Resumes[float32, float32],
	"iter.Slice1":          iter.Slice1[float32, float32],
	"iter.Slice2":          iter.Slice2[float32, float32, float32],
	"iter.Slice3":          iter.Slice3[float32, float32, float32, float32],
	"iter.Unary":           iter.Unary,
	"iter.UnaryFloat":      iter.UnaryFloat,
	"iter.Undefined":       iter.Undefined,
	"iter.UndefinedOf":     iter.UndefinedOf,
	"iter.UnifyNames":      iter.UnifyNames,
	"iter.Yields":          iter.Yields[float32, float32],

	"axes.Dims":      axes.Dims,
	"axes.NewLoader": axes.NewLoader,
	"axes.Numel":     axes.Numel,
	"axes.Split":     axes.Split,
}

var iterReceivers = []reflect.Type{
	reflect.TypeFor[iter.Config](),
	reflect.TypeFor[iter.FastSetup](),
	reflect.TypeFor[*iter.Fold](),
	reflect.TypeFor[*iter.Iterator](),
	reflect.TypeFor[iter.Operand](),
	reflect.TypeFor[*iter.Reducer](),
	reflect.TypeFor[*axes.Loader](),
	reflect.TypeFor[*axes.Walker](),
}

// vouched are the functions that take what nobody can check, addresses above all: the caller
// vouches for it, as their documentation says. Their own tests call them.
var vouched = map[string]string{
	"(iter.Iterator).ForBlocks":      "addresses of operands",
	"(iter.Iterator).ForEach":        "addresses of operands",
	"(iter.Iterator).ForRange":       "addresses of operands",
	"(iter.Iterator).Parallel":       "addresses of operands",
	"(iter.Iterator).ParallelBlocks": "addresses of operands",
	"(iter.Iterator).Reduce":         "addresses of operands",
	"(iter.Reducer).Run":             "addresses of operands",
	"(axes.Loader).Load":             "addresses of blocks",
	"(axes.Loader).Run":              "addresses of blocks",
	"(axes.Walker).Next":             "a walk over axes that the caller makes",
	"(axes.Walker).Seek":             "a walk over axes that the caller makes",
	"(tensor.Scalar).Store":          "an address",
	"(graph.Pointwise).Compile":      "a call of the op, with the operands that graph has checked",
	"(graph.Pointwise).Infer":        "a call of the op, with the operands that graph has checked",
}
