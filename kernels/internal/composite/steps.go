package composite

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// applier applies the ops of a sequence. Its methods are common ops and sequences of ops.
type applier struct{ *compose.Applier }

// Values of parameters that are named keepdim: reduced dimensions are kept with size 1, or dropped.
const (
	keepDims = true
	dropDims = false
)

// allDims is the argument dims of [applier.sum] for all dimensions.
var allDims []int

// Lists of operands and examples of several ops.
var (
	selfOnly      = []graph.Param{kit.Self}
	pair          = []graph.Param{kit.Self, kit.Other}
	variadic      = []graph.Param{kit.Tensors}
	unaryExamples = []graph.Example{kit.UnaryExample}
)

// noLoops is the [graph.Facts.Parallel] of ops that have no independent loops: the sizes of their results depend on all
// operands or on an attribute.
func noLoops(*graph.Call) []graph.Parallel { return nil }

// define defines an op as a sequence of other ops. The callback apply applies them and returns the op's results. Its
// list `in` has an element for each parameter, which is null for an omitted operand. Further operands of a variadic
// parameter follow.
func define[A any](semantics graph.Semantics, apply func(s applier, a A, in []*graph.Arg) []*graph.Arg) *graph.Op {
	return compose.Define[A](graph.Op{Semantics: semantics}, func(s *compose.Applier) []*graph.Arg {
		return apply(applier{s}, kit.Attrs[A](s.Call), applier{s}.operands(len(semantics.Params)))
	})
}

// defineOneResult is define for an op with one result.
func defineOneResult[A any](semantics graph.Semantics,
	apply func(s applier, a A, in []*graph.Arg) *graph.Arg) *graph.Op {
	return compose.Define[A](graph.Op{Semantics: semantics}, func(s *compose.Applier) []*graph.Arg {
		return []*graph.Arg{apply(applier{s}, kit.Attrs[A](s.Call), applier{s}.operands(len(semantics.Params)))}
	})
}

// operands returns the operands of the call, followed by null operands up to n.
func (s applier) operands(n int) []*graph.Arg {
	in := s.Operands()
	for len(in) < n {
		in = append(in, &graph.Arg{})
	}
	return in
}

// unary applies an op with one operand.
//
//go:noinline // here and below, to save code and compile time: the methods have many callers, none of them hot
func (s applier) unary(op *graph.Op, x *graph.Arg) *graph.Arg { return s.Apply(op, nil, x) }

// binary applies an op with two operands.
//
//go:noinline
func (s applier) binary(op *graph.Op, x, y *graph.Arg) *graph.Arg { return s.Apply(op, nil, x, y) }

func (s applier) add(x, y *graph.Arg) *graph.Arg { return s.binary(pointwise.Add, x, y) }
func (s applier) sub(x, y *graph.Arg) *graph.Arg { return s.binary(pointwise.Sub, x, y) }
func (s applier) mul(x, y *graph.Arg) *graph.Arg { return s.binary(pointwise.Mul, x, y) }
func (s applier) div(x, y *graph.Arg) *graph.Arg { return s.binary(pointwise.Div, x, y) }
func (s applier) exp(x *graph.Arg) *graph.Arg    { return s.unary(pointwise.Exp, x) }
func (s applier) log(x *graph.Arg) *graph.Arg    { return s.unary(pointwise.Log, x) }
func (s applier) neg(x *graph.Arg) *graph.Arg    { return s.unary(pointwise.Neg, x) }
func (s applier) abs(x *graph.Arg) *graph.Arg    { return s.unary(pointwise.Abs, x) }
func (s applier) not(x *graph.Arg) *graph.Arg    { return s.unary(pointwise.LogicalNot, x) }
func (s applier) and(x, y *graph.Arg) *graph.Arg { return s.binary(pointwise.LogicalAnd, x, y) }

// oneMinus returns 1 - x.
func (s applier) oneMinus(x *graph.Arg) *graph.Arg {
	return s.Apply(pointwise.Rsub, nil, x, integer(1))
}

// integer returns a plain integer as an operand. Unlike a float, it keeps the dtype of integers.
func integer(n int64) *graph.Arg { return number(tensor.IntScalar(n)) }

// float returns a plain float as an operand.
func float(x float64) *graph.Arg { return number(tensor.FloatScalar(x)) }

// addNumber returns x + number.
func (s applier) addNumber(x *graph.Arg, number float64) *graph.Arg {
	return s.add(x, float(number))
}

// where selects elements of x where the condition holds, else of y.
//
//go:noinline
func (s applier) where(condition, x, y *graph.Arg) *graph.Arg {
	return s.Apply(pointwise.Where, nil, condition, x, y)
}

// sum returns the sum of x along dimensions (dims), or along all dimensions if dims is nil.
//
//go:noinline
func (s applier) sum(x *graph.Arg, keepdim bool, dims []int) *graph.Arg {
	return s.Apply(reduce.Sum, graph.Attrs{"dim": dims, "keepdim": keepdim}, x)
}

// slice returns the view of the indices from start to end along a dimension. A null start is 0, and a null end is the
// size.
//
//go:noinline
func (s applier) slice(x *graph.Arg, dim int, start, end any) *graph.Arg {
	return s.Apply(view.Slice, graph.Attrs{"dim": dim, "start": start, "end": end}, x)
}

// selectIndex returns the view of one index of a dimension, without the dimension.
//
//go:noinline
func (s applier) selectIndex(x *graph.Arg, dim, index int) *graph.Arg {
	return s.Apply(view.Select, graph.Attrs{"dim": dim, "index": index}, x)
}

// unsqueeze returns a view with a new dimension of size 1.
//
//go:noinline
func (s applier) unsqueeze(x *graph.Arg, dim int) *graph.Arg {
	return s.Apply(view.Unsqueeze, graph.Attrs{"dim": dim}, x)
}

// transpose returns a view with two dimensions swapped.
//
//go:noinline
func (s applier) transpose(x *graph.Arg, dim0, dim1 int) *graph.Arg {
	return s.Apply(view.Transpose, graph.Attrs{"dim0": dim0, "dim1": dim1}, x)
}

// reshape returns x in another shape.
//
//go:noinline
func (s applier) reshape(x *graph.Arg, shape ...sym.Int) *graph.Arg {
	return s.Apply(view.Reshape, graph.Attrs{"shape": shape}, x)
}

// to converts x to a dtype.
func (s applier) to(x *graph.Arg, dtype tensor.DType) *graph.Arg {
	if x.Type().DType == dtype {
		return x
	}
	return s.Apply(view.To, graph.Attrs{"dtype": dtype}, x)
}

// rowMajor returns a row-major copy of x.
func (s applier) rowMajor(x *graph.Arg) *graph.Arg {
	return s.Apply(view.Clone, graph.Attrs{"memory_format": "contiguous"}, x)
}

// shape returns the sizes of x.
//
//go:noinline
func (s applier) shape(x *graph.Arg) []sym.Int {
	return x.Type().Shape
}

// wrapDim returns a dimension as a non-negative number. A dimension out of range ends the sequence with PyTorch's
// error.
func (s applier) wrapDim(x *graph.Arg, dim int) int {
	wrapped, err := tensor.WrapDim(dim, x.Type().Rank())
	s.Check(err)
	return wrapped
}

// commonDType returns the dtype to which operands are promoted.
func (s applier) commonDType(in ...*graph.Arg) tensor.DType {
	var promotion tensor.Promotion
	for _, x := range in {
		if x.Kind == graph.NumberArg {
			promotion.AddNumber(x.Number)
		} else {
			promotion.Add(x.Type().DType, x.Type().Rank())
		}
	}
	dtype, err := promotion.Result()
	s.Check(err)
	return dtype
}

// padOnes adds leading sizes of 1 up to the given rank.
func padOnes(shape []sym.Int, rank int) []sym.Int {
	return append(slices.Repeat(sym.Ints(1), rank-len(shape)), shape...)
}

// number returns a plain number as an operand.
func number(v tensor.Scalar) *graph.Arg { return &graph.Arg{Kind: graph.NumberArg, Number: v} }

// pad adds zeros before and after the last dimension; negative numbers remove elements.
func (s applier) pad(x *graph.Arg, before, after sym.Int) *graph.Arg {
	return s.Apply(view.ConstantPadNd, graph.Attrs{"pad": []sym.Int{before, after}}, x)
}

// inPlace returns result in the dtype and layout of x, because PyTorch stores it in the memory of x. result must have
// the shape of x, and must not be a float if x is an integer.
func (s applier) inPlace(x, result *graph.Arg) *graph.Arg {
	resultType, xType := result.Type(), x.Type()
	s.Reject(!tensor.SameSizes(resultType.Shape, xType.Shape), "output with shape %s doesn't match the broadcast shape %s",
		tensor.Sizes(xType.Shape), tensor.Sizes(resultType.Shape))
	s.Reject(resultType.DType.IsFloat() && xType.DType.IsIntegral(true), "result type %s can't be cast to the desired "+
		"output type %s",
		resultType.DType.TorchName(), xType.DType.TorchName())
	return s.WithLayout(result, rule.PreserveType(xType))
}

// preserveFormat returns x in the layout of empty_like(self) if x has self's shape.
func (s applier) preserveFormat(x, self *graph.Arg) *graph.Arg {
	if !tensor.SameSizes(x.Type().Shape, self.Type().Shape) {
		return x
	}
	return s.WithLayout(x, rule.PreserveType(self.Type()))
}
