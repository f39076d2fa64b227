package fourier

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type fftNAttrs struct {
	S    []int  `attr:"s" default:"none" doc:"lengths of the transforms, for each of dim; -1 or none: the size of the dimension"`
	Dim  []int  `attr:"dim" default:"none" doc:"dimensions to transform; none: the last len(s) dimensions, or all if s is none too"`
	Norm string `attr:"norm" default:"backward" oneof:"backward|forward|ortho" doc:"direction that is scaled by 1/n; ortho: both directions are scaled by the root of 1/n"`
}

type fft2Attrs struct {
	S    []int  `attr:"s" default:"none" doc:"lengths of the transforms, for each of dim; -1 or none: the size of the dimension"`
	Dim  []int  `attr:"dim" default:"-2,-1" doc:"dimensions to transform"`
	Norm string `attr:"norm" default:"backward" oneof:"backward|forward|ortho" doc:"direction that is scaled by 1/n; ortho: both directions are scaled by the root of 1/n"`
}

// The ops of this file are Fourier transforms along several dimensions, and the rotations of their results. A transform
// along several dimensions is a graph of transforms along one dimension. For example, fft_rfftn along the dimensions 0,
// 1 and 2 is fft_rfft along 2, then fft_fft along 0 and along 1; fft_irfftn is fft_ifft along 0 and along 1, then
// fft_irfft along 2.
var (
	FftFftn  = fftNOp("fft_fftn", forwardDoc, "several dimensions", sameAttrs, FftFft, FftFft, lastDimLast)
	FftFft2  = fftNOp("fft_fft2", forwardDoc, "two dimensions", attrsOfFft2, FftFft, FftFft, lastDimLast)
	FftIfftn = fftNOp("fft_ifftn", inverseDoc, "several dimensions", sameAttrs, FftIfft, FftIfft, lastDimLast)
	FftIfft2 = fftNOp("fft_ifft2", inverseDoc, "two dimensions", attrsOfFft2, FftIfft, FftIfft, lastDimLast)
	FftRfftn = fftNOp("fft_rfftn", realDoc, "several dimensions", sameAttrs, FftRfft, FftFft, lastDimFirst)
	FftRfft2 = fftNOp("fft_rfft2", realDoc, "two dimensions", attrsOfFft2, FftRfft, FftFft, lastDimFirst)

	FftIrfftn = fftNOp("fft_irfftn", toRealDoc, "several dimensions", sameAttrs, FftIrfft, FftIfft, lastDimLast)
	FftIrfft2 = fftNOp("fft_irfft2", toRealDoc, "two dimensions", attrsOfFft2, FftIrfft, FftIfft, lastDimLast)
	FftHfftn  = fftNOp("fft_hfftn", hermitianDoc, "several dimensions", sameAttrs, FftHfft, FftFft, lastDimLast)
	FftHfft2  = fftNOp("fft_hfft2", hermitianDoc, "two dimensions", attrsOfFft2, FftHfft, FftFft, lastDimLast)
	FftIhfftn = fftNOp("fft_ihfftn", inverseHermitianDoc, "several dimensions", sameAttrs, FftIhfft, FftIfft, lastDimFirst)
	FftIhfft2 = fftNOp("fft_ihfft2", inverseHermitianDoc, "two dimensions", attrsOfFft2, FftIhfft, FftIfft, lastDimFirst)

	FftFftshift = fftShiftOp("fft_fftshift", "Rotates the frequency 0 of transforms to the middle of the dimensions.",
		roundDown)
	FftIfftshift = fftShiftOp("fft_ifftshift",
		"Rotates the middle of the dimensions to index 0: the inverse of fft_fftshift.", roundUp)
)

type fftShiftAttrs struct {
	Dim []int `attr:"dim" default:"none" doc:"dimensions to shift; none: all"`
}

// Descriptions. %s stands for the transformed dimensions.
const (
	forwardDoc = "Transforms from time to frequency along %s."
	inverseDoc = "Transforms from frequency to time along %s."
	realDoc    = "Transforms a real value along %s. The result has only the first half of the frequencies of the last " +
		"dimension of dim."
	toRealDoc = "Transforms frequencies to a real value along %s. The operand has only the first half of the last " +
		"dimension of dim."
	hermitianDoc = "Transforms a value with Hermitian symmetry to real frequencies along %s. The operand has only the " +
		"first half of the last dimension of dim."
	inverseHermitianDoc = "Transforms real frequencies to a value with Hermitian symmetry along %s. The result has only " +
		"the first half of the last dimension of dim."
)

// Values of the parameter startsWithLast of [fftNOp].
const (
	lastDimFirst = true
	lastDimLast  = false
)

// sameAttrs and attrsOfFft2 return the attributes of ops along several and along two dimensions, for [fftNOp].
func sameAttrs(a *fftNAttrs) *fftNAttrs   { return a }
func attrsOfFft2(a *fft2Attrs) *fftNAttrs { return (*fftNAttrs)(a) }

// fftNOp defines a Fourier transform along several dimensions as a sequence of transforms along one dimension.
// dimsText replaces %s in doc. attrs converts the attributes of the op. lastOp transforms the last of the dimensions,
// and otherOp transforms each other dimension. If startsWithLast is set, the operand must be real, and the last
// dimension is transformed first.
func fftNOp[A any](name, doc, dimsText string, attrs func(A) *fftNAttrs, lastOp, otherOp *graph.Op,
	startsWithLast bool) *graph.Op {
	dtype := lastOp.Examples[0].In[0].DType
	return compose.Define[A](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: fmt.Sprintf(doc, dimsText), Params: []graph.Param{kit.Self},
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(dtype, 3, 4, 5)}},
				{In: []tensor.Meta{tensor.New(dtype, 6, 3, 2)},
					Attrs: graph.Attrs{"dim": []int{0, 1}, "s": []int{5, 4}, "norm": "ortho"}}},
		},
	}, func(s *compose.Applier) []*graph.Arg {
		callAttrs, x := attrs(kit.Attrs[A](s.Call)), s.Operands()[0]
		dims, lengths, err := callAttrs.dimsOf(s.Call.Type(0).Rank())
		s.Check(err)
		if len(dims) == 0 {
			// An op such as fft_fftn, with lastOp equal to otherOp, may transform no dimension. The other ops halve or
			// mirror the last dimension, so they need one.
			s.Reject(lastOp != otherOp, "%s must transform at least one axis", name[len("fft_"):])
			return []*graph.Arg{complexCopy(s)}
		}
		lastIndex := len(dims) - 1
		s.Reject(startsWithLast && x.Type().DType.IsComplex(), "%sn expects a real-valued input tensor, but got %s",
			lastOp.Name[len("fft_"):], x.Type().DType.TorchName())
		for step := range dims {
			i := step // the step transforms x along dims[i]
			if startsWithLast {
				i = (step + lastIndex) % len(dims)
			}
			op, opAttrs := otherOp, graph.Attrs{"dim": dims[i], "norm": callAttrs.Norm}
			if i == lastIndex {
				op = lastOp
			}
			if lengths[i] >= 0 {
				opAttrs["n"] = lengths[i]
			}
			x = s.Apply(op, opAttrs, x)
		}
		return []*graph.Arg{x}
	})
}

// complexCopy returns the result of a transform along no dimension: a complex row-major copy of self.
func complexCopy(s *compose.Applier) *graph.Arg {
	x := s.Operands()[0]
	dtype := x.Type().DType
	s.Reject(dtype.IsReducedFloat(), "Unsupported dtype %s", dtype.TorchName())
	if dtype.IsIntegral(true) {
		dtype = tensor.Float32
	}
	if dtype.IsComplex() {
		return s.Apply(view.Clone, graph.Attrs{"memory_format": "contiguous"}, x)
	}
	return s.Apply(view.To, graph.Attrs{"dtype": dtype.ToComplex(), "memory_format": "contiguous"}, x)
}

// dimsOf returns the dimensions of a value of the given rank that are transformed, and the lengths of the transforms.
// The length -1 stands for the size of the dimension.
func (a *fftNAttrs) dimsOf(rank int) (dims, lengths []int, err error) {
	dims = slices.Clone(a.Dim)
	switch {
	case a.Dim != nil && a.S != nil && len(a.Dim) != len(a.S):
		return nil, nil, errors.New("When given, dim and shape arguments must have the same length")
	case len(a.S) > rank:
		return nil, nil, fmt.Errorf("Got shape with %d values but input tensor only has %d dimensions.",
			len(a.S), rank)
	case a.Dim == nil:
		first := 0
		if a.S != nil {
			first = rank - len(a.S)
		}
		for dim := first; dim < rank; dim++ {
			dims = append(dims, dim)
		}
	}
	seenDims := map[int]bool{}
	for i, dim := range dims {
		if dims[i], err = tensor.WrapDim(dim, rank); err != nil {
			return nil, nil, err
		}
		if seenDims[dims[i]] {
			return nil, nil, errors.New("FFT dims must be unique")
		}
		seenDims[dims[i]] = true
		length := -1
		if a.S != nil {
			length = a.S[i]
		}
		if length < -1 || length == 0 {
			return nil, nil, fmt.Errorf("Invalid number of data points (%d) specified", length)
		}
		lengths = append(lengths, length)
	}
	return dims, lengths, nil
}

// Values of the parameter rounding of [fftShiftOp]: a shift is (size + rounding)/2.
const (
	roundDown = 0
	roundUp   = 1
)

// fftShiftOp defines a rotation of dimensions by half of their size, rounded down or up. For example, fft_fftshift
// (roundDown) of [0 1 2 3 4] is [3 4 0 1 2], and fft_ifftshift (roundUp) restores the order.
func fftShiftOp(name, doc string, rounding int) *graph.Op {
	return compose.Define[*fftShiftAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self},
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 5)}, Attrs: graph.Attrs{"dim": []int{1}}},
				{In: []tensor.Meta{kit.F32(2, 4, 5)}, Attrs: graph.Attrs{"dim": []int{0, -1}}}},
		},
	}, func(s *compose.Applier) []*graph.Arg {
		self, dims := s.Call.Type(0), slices.Clone(kit.Attrs[*fftShiftAttrs](s.Call).Dim)
		if dims == nil {
			for dim := range self.Rank() {
				dims = append(dims, dim)
			}
		}
		// Sizes are unknown only in inference. Roll needs numbers as shifts, so the result is a type without a call of
		// Roll.
		if _, isKnown := self.Meta(); !isKnown && len(dims) > 0 {
			shifted := shiftedType(s, self, dims, rounding)
			return []*graph.Arg{{Kind: graph.TensorArg, Value: &graph.Value{Name: name, Type: rule.PreserveType(shifted)}}}
		}
		shifts := []int{}
		for i := range dims {
			dim, err := tensor.WrapDim(dims[i], self.Rank())
			s.Check(err)
			shifts = append(shifts, (kit.KnownSize(self.Shape[dim])+rounding)/2)
		}
		return []*graph.Arg{s.Apply(view.Roll, graph.Attrs{"shifts": shifts, "dims": dims}, s.Operands()[0])}
	})
}

// shiftedType returns the type of self after the rotation of dims by [fftShiftOp]. The sizes of self may be symbolic.
func shiftedType(s *compose.Applier, self tensor.Type, dims []int, rounding int) tensor.Type {
	for i := range dims {
		dim, err := tensor.WrapDim(dims[i], self.Rank())
		s.Check(err)
		if kit.IsEmpty(self) {
			continue
		}
		// The index in the operand of the result's first element: size - (size + rounding)/2 = (size + 1 - rounding)/2,
		// with divisions rounded down. It is 0 if size is 1.
		start := sym.Int{}
		if !kit.SizeIs(self.Shape[dim], 1) {
			start = self.Shape[dim].Add(sym.Of(1 - rounding)).Div(sym.Of(2))
		}
		self, err = view.RolledType(self, dim, start)
		s.Check(err)
	}
	return self
}
