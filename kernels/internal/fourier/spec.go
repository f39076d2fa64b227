package fourier

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type fftAttrs struct {
	N    *sym.Int `attr:"n" default:"none" doc:"length of the transform: the operand is cut, or extended by zeros; none: the length of the operand"`
	Dim  int      `attr:"dim" default:"-1" doc:"dimension to transform"`
	Norm string   `attr:"norm" default:"backward" oneof:"backward|forward|ortho" doc:"direction that is scaled by 1/n; ortho: both directions are scaled by the root of 1/n"`
}

// maxFourier is the greatest length of a transform.
const maxFourier = 1 << 26

// transformCost is the approximate cost of transforming an element, in copied elements.
const transformCost = 32

// complexBytes is the size of a complex128 in bytes.
const complexBytes = 16

// fourierSpec describes a call of a Fourier transform: a transform of the lines along a dimension. Half of the
// frequencies of a real line may be omitted, because they are the conjugates of the other half. inLen, points and
// outLen then differ. For example, for 8 points:
//
//	          inLen  points  outLen
//	fft_fft       8       8       8
//	fft_rfft      8       8       5   isFromReal, isOnesided
//	fft_irfft     5       8       8   isInverse, isToReal
type fourierSpec struct {
	isInverse       bool // whether frequencies are transformed to values
	isOnesided      bool // whether the result has only the first half of the frequencies
	isFromReal      bool // whether the operand is real
	isToReal        bool // whether the result is real; the operand then has only the first half of a line
	hasComplexPairs bool // whether complex numbers are pairs along the last dimension of operand and result

	dim                   int
	points, inLen, outLen int     // number of elements of a line in the transform, in the operand and in the result
	scale                 float64 // factor of the result
}

// setFromAten sets the fields for a call of the given op of PyTorch, and returns the type of the result.
func (spec *fourierSpec) setFromAten(name string, attrs *fftAttrs, self tensor.Type) (tensor.Type, error) {
	var err error
	if spec.dim, err = tensor.WrapDim(attrs.Dim, self.Rank()); err != nil {
		return self, err
	}
	dtype := self.DType
	switch {
	case self.Rank() == 0:
		return self, errors.New("Dimension specified as -1 but tensor has no dimensions")
	case dtype.IsReducedFloat():
		return self, fmt.Errorf("Unsupported dtype %s", dtype.TorchName())
	case spec.isFromReal && dtype.IsComplex():
		return self, fmt.Errorf("%s expects a real input tensor, but got %s", name, dtype.TorchName())
	case dtype.IsIntegral(true):
		dtype = tensor.Float32
	}
	shape, err := spec.setLengths(self, attrs.N)
	if err != nil {
		return self, err
	}
	spec.scale = 1
	switch {
	case attrs.Norm == "ortho":
		spec.scale = 1 / math.Sqrt(float64(spec.points))
	case (attrs.Norm == "backward") == spec.isInverse: // the direction that Norm names
		spec.scale = 1 / float64(spec.points)
	}
	if spec.isToReal {
		return kit.FreshType(dtype.ToReal(), shape)
	}
	return kit.FreshType(dtype.ToComplex(), shape)
}

// setLengths sets inLen, points and outLen, and returns the sizes of the result. The requested length is nil for the
// length of the operand. In inference, where sizes may be symbolic, only the returned sizes matter.
func (spec *fourierSpec) setLengths(self tensor.Type, requested *sym.Int) ([]sym.Int, error) {
	in := self.Shape[spec.dim]
	points := in
	if spec.isToReal {
		points = in.Sub(sym.Of(1)).Mul(sym.Of(2))
	}
	if requested != nil {
		points = *requested
	}
	if points.Lt(sym.Of(1)).Or(points.Gt(sym.Of(maxFourier))).Holds() {
		return nil, fmt.Errorf("Invalid number of data points (%v) specified", points)
	}
	out := points
	if spec.isOnesided {
		out = points.Div(sym.Of(2)).Add(sym.Of(1))
	}
	spec.inLen, spec.points, spec.outLen = kit.KnownSize(in), kit.KnownSize(points), kit.KnownSize(out)
	shape := slices.Clone(self.Shape)
	shape[spec.dim] = out
	return shape, nil
}

// kernel returns the kernel of a call.
func (spec *fourierSpec) kernel(c *graph.Call) *graph.Kernel {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}
	}
	if spec.points > maxChunkLine {
		return spec.longKernel(c)
	}
	lines, read, write := spec.access(c)
	forward, workLen := spec.lineTransform(c.Out[0].DType)
	memoryLen := spec.points + workLen
	// offsets has the offset of the operand's line, then of the result's line, as in access. In mem.Ptrs, the result is
	// first.
	phase := lines.Phase(transformCost*spec.points, func(mem *graph.Mem, offsets [4]int) error {
		memory := unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), memoryLen)
		values, scratch := memory[:spec.points], memory[spec.points:]
		operandLine, resultLine := unsafe.Add(mem.Ptrs[1], offsets[0]), unsafe.Add(mem.Ptrs[0], offsets[1])
		const first, step = 0, 1
		spec.load(values, first, step, func(values []complex128, first, step int) {
			read(operandLine, values, first, step)
		})
		spec.transform(forward, values, scratch)
		write(resultLine, values[:spec.outLen], first, step)
		return nil
	})
	return &graph.Kernel{WorkerScratch: complexBytes * memoryLen, Phases: []graph.Phase{phase}}
}

// load fills values with the elements first, first+step, first+2*step and so on of a line of the operand. The line is
// cut, or extended by zeros, to the length of the transform. If isToReal is set, the second half of the line is the
// mirrored conjugate of the first. read reads elements of the operand; its step may be negative.
func (spec *fourierSpec) load(values []complex128, first, step int, read func(values []complex128, first, step int)) {
	available := spec.available()
	count := min(len(values), kit.DivUp(max(0, available-first), step)) // values that the operand has
	// If there are none, the address of element first may be outside of the operand.
	if count > 0 {
		read(values[:count], first, step)
	}
	clear(values[count:])
	if !spec.isToReal {
		return
	}
	// Element j is the conjugate of element points-j, if the operand has element points-j.
	mirrored := max(count, kit.DivUp(max(0, spec.points-available+1-first), step))
	if mirrored < len(values) {
		read(values[mirrored:], spec.points-(first+mirrored*step), -step)
		conjugate(values[mirrored:])
	}
	for i, value := range values[:count] {
		if j := first + i*step; j == 0 || 2*j == spec.points { // element points-j is the same element
			values[i] = complex(real(value), 0)
		}
	}
}

// conjugate replaces values by their conjugates.
func conjugate(values []complex128) {
	for i, value := range values {
		values[i] = complex(real(value), -imag(value))
	}
}

// available returns the number of elements of a line of the operand that the transform uses.
func (spec *fourierSpec) available() int {
	if spec.isToReal {
		return min(spec.inLen, spec.points/2+1)
	}
	return min(spec.inLen, spec.points)
}

// transform transforms a line and scales it. The inverse transform of x is conj(forward(conj(x))), without its scale.
// forward is a function of lineTransform.
func (spec *fourierSpec) transform(forward func(x, scratch []complex128), values, scratch []complex128) {
	if spec.isInverse {
		conjugate(values)
	}
	forward(values, scratch)
	spec.scaleFrequencies(values[:spec.outLen])
}

// lineTransform returns a function that replaces the first outLen elements of x by the first outLen elements of its
// forward transform. It also returns the number of elements of scratch. result is the dtype of the result. An inverse
// transform conjugates x before and after; the conjugates are also real, or have a real transform.
func (spec *fourierSpec) lineTransform(result tensor.DType) (forward func(x, scratch []complex128), workLen int) {
	if !spec.usesHalfLength(result) {
		f := newFourier(spec.points)
		return f.forward, f.workLen()
	}
	f := newRealFourier(spec.points)
	if spec.isToReal {
		return f.forwardToReal, f.half.workLen()
	}
	return f.forwardReal, f.half.workLen()
}

// usesHalfLength reports whether a line is transformed by a complex transform of half its length. A transform to
// float64 does not use half the length, because forwardToReal has a greater rounding error than the real part of a
// complex transform. A line of 4 points does not either, because firstRadix4 is faster.
func (spec *fourierSpec) usesHalfLength(result tensor.DType) bool {
	return spec.points <= maxChunkLine && spec.points%2 == 0 && spec.points != 4 &&
		(spec.isToReal && result != tensor.Float64 || spec.isFromReal && spec.isOnesided)
}

// flops returns the approximate number of arithmetic operations of a call with a result of the given meta.
func (spec *fourierSpec) flops(result tensor.Meta) float64 {
	lines := float64(result.Numel()) / float64(max(1, result.Shape[spec.dim]))
	if spec.hasComplexPairs {
		lines /= float64(max(1, result.Shape[result.Rank()-1]))
	}
	if spec.usesHalfLength(result.DType) {
		return lines * (flops(spec.points/2) + float64(4*spec.points))
	}
	return lines * flops(spec.points)
}

// scaleFrequencies scales transformed values, and conjugates them for an inverse transform.
func (spec *fourierSpec) scaleFrequencies(values []complex128) {
	imagScale := spec.scale
	if spec.isInverse {
		imagScale = -imagScale
	}
	for i, value := range values {
		values[i] = complex(real(value)*spec.scale, imag(value)*imagScale)
	}
}

// elementReader reads the elements first, first+step, first+2*step and so on of the line of the operand at address
// line. It reads at least one element.
type elementReader func(line unsafe.Pointer, values []complex128, first, step int)

// elementWriter writes values to the line of the result at address line, at the indices first, first+step, first+2*step
// and so on.
type elementWriter func(line unsafe.Pointer, values []complex128, first, step int)

// access returns the lines of a call, and functions that access one line.
func (spec *fourierSpec) access(c *graph.Call) (lines *kit.LineSet, read elementReader, write elementWriter) {
	src, dst := c.Meta(0), c.Out[0]
	if spec.hasComplexPairs {
		src, dst = withoutLastDim(src), withoutLastDim(dst)
	}
	return kit.NewLineSet(src.Shape, spec.dim, src, dst), spec.reader(c.Meta(0)), spec.writer(c.Out[0])
}

// withoutLastDim returns the meta without its last dimension.
func withoutLastDim(meta tensor.Meta) tensor.Meta {
	lastDim := meta.Rank() - 1
	meta.Shape, meta.Strides = meta.Shape[:lastDim], meta.Strides[:lastDim]
	return meta
}

// reader returns the function that reads elements of the operand.
func (spec *fourierSpec) reader(operand tensor.Meta) elementReader {
	operandStep := kit.ByteStride(operand, spec.dim)
	if !spec.hasComplexPairs {
		load := tensor.Converter(tensor.Complex128, operand.DType)
		return func(line unsafe.Pointer, values []complex128, first, step int) {
			address := unsafe.Add(line, first*operandStep)
			load(unsafe.Pointer(unsafe.SliceData(values)), address, complexBytes, step*operandStep, len(values))
		}
	}
	imagOffset := kit.ByteStride(operand, operand.Rank()-1) // from the real part to the imaginary part, in bytes
	load := tensor.Converter(tensor.Float64, operand.DType)
	return func(line unsafe.Pointer, values []complex128, first, step int) {
		parts := unsafe.Pointer(unsafe.SliceData(values))
		address, count := unsafe.Add(line, first*operandStep), len(values)
		load(parts, address, complexBytes, step*operandStep, count)
		if spec.isFromReal {
			for i, value := range values {
				values[i] = complex(real(value), 0)
			}
		} else {
			imagParts := unsafe.Add(parts, complexBytes/2)
			load(imagParts, unsafe.Add(address, imagOffset), complexBytes, step*operandStep, count)
		}
	}
}

// writer returns the function that writes elements of the result.
func (spec *fourierSpec) writer(result tensor.Meta) elementWriter {
	resultStep := kit.ByteStride(result, spec.dim)
	if !spec.hasComplexPairs {
		store := tensor.Converter(result.DType, tensor.Complex128)
		return func(line unsafe.Pointer, values []complex128, first, step int) {
			address := unsafe.Add(line, first*resultStep)
			store(address, unsafe.Pointer(&values[0]), step*resultStep, complexBytes, len(values))
		}
	}
	imagOffset := kit.ByteStride(result, result.Rank()-1) // from the real part to the imaginary part, in bytes
	store := tensor.Converter(result.DType, tensor.Float64)
	return func(line unsafe.Pointer, values []complex128, first, step int) {
		address, count := unsafe.Add(line, first*resultStep), len(values)
		store(address, unsafe.Pointer(&values[0]), step*resultStep, complexBytes, count)
		if !spec.isToReal {
			floats := unsafe.Slice((*float64)(unsafe.Pointer(&values[0])), 2*count)
			store(unsafe.Add(address, imagOffset), unsafe.Pointer(&floats[1]), step*resultStep, complexBytes, count)
		}
	}
}
