package composite

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type diffAttrs struct {
	N   int `attr:"n" default:"1" doc:"number of times that differences are taken, at most 64"`
	Dim int `attr:"dim" default:"-1" doc:"dimension along which differences are taken"`
}

type trapezoidAttrs struct {
	Dx  tensor.Scalar `attr:"dx" default:"1" doc:"distance between samples if x is omitted"`
	Dim int           `attr:"dim" default:"-1" doc:"dimension of the samples"`
}

// maxDifferences bounds the attribute n of diff, which is a number of steps.
const maxDifferences = 64

var (
	samples           = []graph.Param{{Name: "y"}, {Name: "x", Optional: true, Overload: "x"}}
	trapezoidExamples = []graph.Example{kit.Example(nil, kit.TransposedMatrix), kit.Example(nil, kit.FloatMatrix,
		kit.FloatRow),
		kit.Example(graph.Attrs{"dx": 0.5, "dim": 0}, kit.FloatMatrix)}
)

// Differences and integrals along a dimension. The function of an op applies other ops (steps.go) and returns the
// result.
var (
	Diff = defineOneResult(graph.Semantics{
		Name: "diff", Doc: "Returns the `n`-th differences of consecutive elements along a dimension. First, `prepend` " +
			"and `append` are concatenated with self.",
		Params:   []graph.Param{kit.Self, {Name: "prepend", Optional: true}, {Name: "append", Optional: true}},
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix), kit.Example(nil, kit.FloatMatrix, kit.F32(2, 1))},
	}, diff)
	Trapezoid = defineOneResult(graph.Semantics{
		Name: "trapezoid", Doc: "Integrates samples `y` at the positions `x`, or at distances of `dx`, along a " +
			"dimension by the trapezoidal rule.",
		Params: samples, Examples: trapezoidExamples,
	}, trapezoid)
	Trapz = defineOneResult(graph.Semantics{
		Name: "trapz", Doc: "Integrates samples `y` at the positions `x` along a dimension, as `trapezoid` does.",
		Params: samples, Examples: trapezoidExamples,
	}, trapezoid)
	CumulativeTrapezoid = defineOneResult(graph.Semantics{
		Name: "cumulative_trapezoid", Doc: "Returns the running integrals of samples `y` at the positions `x`, or " +
			"at distances of `dx`, along a dimension by the trapezoidal rule.",
		Params: samples, Examples: trapezoidExamples,
	}, cumulativeTrapezoid)
)

// diff takes differences a.N times: x[i+1] - x[i] for all i. The first differences of 1, 4, 9 and 16 are 3, 5 and 7,
// and the second differences 2 and 2.
func diff(s applier, a *diffAttrs, in []*graph.Arg) *graph.Arg {
	x := in[0]
	s.Reject(len(s.shape(x)) < 1, "diff expects input to be at least one-dimensional")
	s.Reject(a.N < 0, "order must be non-negative but got %d", a.N)
	s.Reject(a.N > maxDifferences, "diff of order %d: at most %d is supported", a.N, maxDifferences)
	dim := s.wrapDim(x, a.Dim)
	if prepended := in[1]; prepended.Kind != graph.Null {
		s.checkExtension(in[0], prepended, dim)
		x = s.Apply(view.Cat, graph.Attrs{"dim": dim}, prepended, x)
	}
	if appended := in[2]; appended.Kind != graph.Null {
		s.checkExtension(in[0], appended, dim)
		x = s.Apply(view.Cat, graph.Attrs{"dim": dim}, x, appended)
	}
	if a.N == 0 { // as in PyTorch, prepend and append are ignored
		return s.Apply(view.Clone, nil, in[0])
	}
	if kit.SizeIs(x.Type().Shape[dim], 0) {
		return s.Apply(view.Clone, nil, x)
	}
	for range a.N {
		left, right := s.neighbours(x, dim)
		op := pointwise.Sub
		if x.Type().DType == tensor.Bool {
			op = pointwise.LogicalXor
		}
		x = s.Apply(op, nil, right, left)
	}
	return x
}

// checkExtension rejects an operand that diff cannot concatenate with x along a dimension.
func (s applier) checkExtension(x, extension *graph.Arg, dim int) {
	xShape, extensionShape := s.shape(x), extension.Type().Shape
	s.Reject(len(extensionShape) != len(xShape), "diff expects prepend or append to be the same dimension as input")
	for axis := range xShape {
		s.Reject(axis != dim && extensionShape[axis].Ne(xShape[axis]).Holds(),
			"diff expects the shape of tensor to prepend or "+
				"append to match that of input except along the differencing dimension; input.size(%d) = %v, but got "+
				"tensor.size(%d) = %v", axis, xShape[axis], axis, extensionShape[axis])
	}
}

// neighbours returns two views of x: one without the last index of a dimension, and one without its first index.
func (s applier) neighbours(x *graph.Arg, dim int) (left, right *graph.Arg) {
	return s.slice(x, dim, nil, -1), s.slice(x, dim, 1, nil) // nil: from index 0, to the size
}

// widths returns the widths of trapezoids: the differences of the positions x of samples y, in a shape that broadcasts
// with the differences of y.
func (s applier) widths(name string, y, x *graph.Arg, dim int) *graph.Arg {
	s.Reject(y.Type().DType == tensor.Bool || x.Type().DType == tensor.Bool, "%s: received a bool input for `x` or `y`, "+
		"but bool is not supported", name)
	rankY, xShape := y.Type().Rank(), x.Type().Shape
	switch {
	case len(xShape) == 1: // the positions get the shape 1, ..., n, ..., 1 with n at index dim
		s.Reject(rankY > 0 && xShape[0].Ne(s.shape(y)[dim]).Holds(),
			"%s: There must be one `x` value for each sample point", name)
		x = s.reshape(x, append(append(padOnes(nil, dim), xShape[0]), padOnes(nil, rankY-dim-1)...)...)
	case len(xShape) < rankY:
		x = s.reshape(x, padOnes(xShape, rankY)...)
	}
	left, right := s.neighbours(x, dim)
	return s.sub(right, left)
}

// trapezoid adds the products of (y[i] + y[i+1])/2 and x[i+1] - x[i]. For samples at equal distances dx, this is dx
// times the sum of y without half of the first and the last sample. The integral of the samples 1, 2 and 4 at distances
// of 1 is 1.5 + 3 = 7 - (1+4)/2 = 4.5.
func trapezoid(s applier, a *trapezoidAttrs, in []*graph.Arg) *graph.Arg {
	y := in[0]
	dim := s.wrapDim(y, a.Dim)
	s.Reject(y.Type().Rank() == 0, "Dimension specified as %d but tensor has no dimensions", a.Dim)
	if kit.SizeIs(y.Type().Shape[dim], 0) { // of any dtype, as in PyTorch
		return s.zerosWithout(y, dim)
	}
	if in[1].Kind == graph.Null {
		s.Reject(y.Type().DType == tensor.Bool, "trapezoid: received a bool input for `y`, but bool is not supported")
		ends := s.mul(s.add(s.selectIndex(y, dim, 0), s.selectIndex(y, dim, -1)), float(0.5))
		return s.mul(s.sub(s.sum(y, dropDims, []int{dim}), ends), number(a.Dx))
	}
	widths := s.widths("trapezoid", y, in[1], dim)
	left, right := s.neighbours(y, dim)
	return s.div(s.sum(s.mul(s.add(left, right), widths), dropDims, []int{dim}), float(2))
}

// zerosWithout returns zeros in the shape of x without a dimension.
func (s applier) zerosWithout(x *graph.Arg, dim int) *graph.Arg {
	var shape []sym.Int
	for other, size := range s.shape(x) {
		if other != dim {
			shape = append(shape, size)
		}
	}
	return s.Apply(view.NewZeros, graph.Attrs{"size": shape}, x)
}

// cumulativeTrapezoid is trapezoid with running sums.
func cumulativeTrapezoid(s applier, a *trapezoidAttrs, in []*graph.Arg) *graph.Arg {
	y := in[0]
	dim := s.wrapDim(y, a.Dim)
	s.Reject(y.Type().Rank() == 0, "Dimension specified as %d but tensor has no dimensions", a.Dim)
	left, right := s.neighbours(y, dim)
	if in[1].Kind == graph.Null {
		s.Reject(y.Type().DType == tensor.Bool, "cumulative_trapezoid: received a bool input for `y`, but bool "+
			"is not supported")
		halves := s.mul(float(a.Dx.Float()/2), s.add(left, right))
		return s.Apply(reduce.Cumsum, graph.Attrs{"dim": dim}, halves)
	}
	areas := s.mul(s.widths("cumulative_trapezoid", y, in[1], dim), s.add(left, right))
	return s.div(s.Apply(reduce.Cumsum, graph.Attrs{"dim": dim}, areas), float(2))
}
