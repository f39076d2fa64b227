package window

import (
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Separable interpolation resamples one dimension after another. A [resampling] describes a call. It has an [axisTaps]
// for each dimension, which computes the taps: elements of the operand and their weights. A call has one of two kinds
// of kernels: a resamplePass for each resampled dimension (resample_pass.go), which computes weighted sums, or, if each
// result is a copy of one element, a [selection], which copies along all dimensions at once.
//
// For example, linear interpolation doubles a dimension of 4 elements x as follows. Index i of the result is at
// position (i+0.5)/2 - 0.5 of the operand. Index 3 is at position 1.25: its taps are element 1 with weight 0.75 and
// element 2 with weight 0.25, and the result is 0.75*x[1] + 0.25*x[2].

// resampling describes a separable interpolation of an operand.
type resampling struct {
	taps         []*axisTaps // taps of each dimension; nil for dimensions that do not change
	outsideValue float64     // result at indices without taps
}

// shape returns the shape of the result for an operand of shape in.
func (r *resampling) shape(in []int) []int {
	out := slices.Clone(in)
	for d, taps := range r.taps {
		if taps != nil {
			out[d] = taps.outSize
		}
	}
	return out
}

// resampleDType returns the dtype in which elements of a dtype are summed: float64 for float64 and for integers of more
// than 16 bits, otherwise float32.
func resampleDType(dtype tensor.DType) tensor.DType {
	if dtype == tensor.Float64 || dtype.IsIntegral(true) && dtype.Size() > 2 {
		return tensor.Float64
	}
	return tensor.Float32
}

// resampleImpls returns the implementations of an op that resamples. resamplingOf returns the resampling of a call.
func resampleImpls(resamplingOf func(c *graph.Call) (*resampling, error)) []graph.Impl {
	return []graph.Impl{{Name: "plain", Doc: "Resamples dimension by dimension, by loops over contiguous " +
		"elements.",
		Lower: func(c *graph.Call) (*graph.Kernel, error) {
			resample, err := resamplingOf(c)
			if err != nil {
				return nil, err
			}
			return resample.compile(c)
		},
		Work: func(c *graph.Call, walk graph.Walk) graph.Work {
			work := graph.Work{StartedSteps: 1}
			c.AddStreamed(&work)
			if resample, err := resamplingOf(c); err == nil {
				resample.addWork(&work, c.Meta(0).Shape, walk.ResultLayout(0, c.Out[0]))
			}
			return work
		}}}
}

// compile makes the kernel of a call.
func (r *resampling) compile(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	if call.Out[0].Rank() == 0 {
		return copies.CompileCopy(call)
	}
	if r.isSelection() {
		return r.selectionKernel(call), nil
	}
	if resampleDType(call.Out[0].DType) == tensor.Float32 {
		return resampleKernel[float32](r, call)
	}
	return resampleKernel[float64](r, call)
}

// isSelection reports whether each element of the result is known to be either a copy of one element of the operand or
// outsideValue. It is false if a table of taps is too long to check (see [axisTaps.hasStaticTable]).
func (r *resampling) isSelection() bool {
	for _, taps := range r.taps {
		if taps != nil && !taps.isSelection() {
			return false
		}
	}
	return true
}

// axisTaps computes the taps of each index of an output dimension. A tap is an element of the input dimension with a
// weight. An index whose position is outside the input may have no taps. Results without taps are
// [resampling.outsideValue].
type axisTaps struct {
	outSize   int  // size of the output dimension
	maxTaps   int  // maximum number of taps per index
	isNearest bool // whether each index has at most one tap whose weight is not 0, and this weight is 1
	// eachTap calls add for each tap of index i. element is an index of the input dimension.
	eachTap func(i int, add func(element int, weight float64))
}

// maxStaticEntries is the maximum number of entries of a static table, which is computed when the kernel is made. A
// table of this length has about 1 MiB. A phase of the kernel computes longer tables.
const maxStaticEntries = 1 << 16

// hasStaticTable reports whether the table of taps is static.
func (t *axisTaps) hasStaticTable() bool {
	return kit.BoundedProduct(t.outSize, t.maxTaps) <= maxStaticEntries
}

// eachNonzero calls add for the taps of index i whose weight is not 0.
func (t *axisTaps) eachNonzero(i int, add func(element int, weight float64)) {
	t.eachTap(i, func(element int, weight float64) {
		if weight != 0 {
			add(element, weight)
		}
	})
}

// isSelection reports whether each index is known to have at most one tap, and this tap has weight 1.
func (t *axisTaps) isSelection() bool {
	return t.isNearest || t.hasStaticTable() && t.hasOnlyUnitTaps(1)
}

// hasOnlyUnitTaps reports whether each of the indices 0, step, 2*step, ... has one tap of weight 1.
func (t *axisTaps) hasOnlyUnitTaps(step int) bool {
	for i := 0; i < t.outSize; i += step {
		count, unitCount := 0, 0
		t.eachNonzero(i, func(_ int, weight float64) {
			count++
			if weight == 1 {
				unitCount++
			}
		})
		if count != 1 || unitCount != 1 {
			return false
		}
	}
	return true
}

// sampledIndices is the approximate number of indices that [axisTaps.estimate] examines.
const sampledIndices = 64

// estimate examines about sampledIndices indices. It estimates the number of taps per index, and the result of
// [axisTaps.isSelection].
func (t *axisTaps) estimate() (tapsPerIndex float64, isSelection bool) {
	step := max(1, t.outSize/sampledIndices)
	taps, sampled := 0, 0
	for i := 0; i < t.outSize; i += step {
		sampled++
		if t.maxTaps > maxStaticEntries { // listing the taps would take too long
			taps += t.maxTaps
			continue
		}
		t.eachNonzero(i, func(int, float64) { taps++ })
	}
	isSelection = t.isNearest || t.maxTaps <= maxStaticEntries && t.hasOnlyUnitTaps(step)
	return float64(taps) / float64(max(1, sampled)), isSelection
}

// tapTable lists the taps of all indices whose weight is not 0. The taps of index i are elements[k] with weights[k],
// for k from i*stride to i*stride + counts[i] - 1.
type tapTable[T float32 | float64] struct {
	stride           int
	counts, elements []int
	weights          []T
}

// fill lists the taps of the indices from begin to end-1.
func (t *tapTable[T]) fill(axis *axisTaps, begin, end int) {
	for i := begin; i < end; i++ {
		next := i * t.stride
		axis.eachNonzero(i, func(element int, weight float64) {
			t.elements[next], t.weights[next] = element, T(weight)
			next++
		})
		t.counts[i] = next - i*t.stride
	}
}

// indexTable lists a number for each index of a dimension: an index or an offset in the operand. It is static, or a
// phase of the kernel computes it in scratch memory (see maxStaticEntries).
type indexTable struct {
	staticList    []int // nil if a phase computes the list
	length        int   // length of the list
	scratchOffset int   // offset of the list of a phase in scratch memory, in bytes
}

// newIndexTable lists number(i) for i from 0 to length-1. If the list is not static, it adds a phase and scratch memory
// to the kernel.
func newIndexTable(kernel *graph.Kernel, length int, number func(i int) int) indexTable {
	fill := func(list []int, begin, end int) {
		for i := begin; i < end; i++ {
			list[i] = number(i)
		}
	}
	table := indexTable{length: length}
	if length <= maxStaticEntries {
		table.staticList = make([]int, length)
		fill(table.staticList, 0, length)
		return table
	}
	table.scratchOffset = kernel.Scratch
	kernel.Scratch += kit.AlignUp(8 * length)
	kernel.Phases = append(kernel.Phases, copies.ChunkedPhase(length, 1, func(mem *graph.Mem, begin, end int) error {
		fill(table.indicesOf(mem), begin, end)
		return nil
	}))
	return table
}

// indicesOf returns the list.
func (t *indexTable) indicesOf(mem *graph.Mem) []int {
	if t.staticList != nil || t.length == 0 {
		return t.staticList
	}
	return kit.SliceOf[int](mem.Scratch, t.scratchOffset, t.length)
}

// maxPieceElements is the maximum number of elements of a piece of a row. A unit of work copies one piece, in at most a
// few milliseconds.
const maxPieceElements = 1 << 20

// selection copies elements, one piece of a row of the result after another. Each dimension has a table: for each index
// of the result, the byte offset in the operand, or -1 if the index has no taps.
type selection struct {
	tables                 []indexTable
	shape                  []int // of the result
	dstStrides, srcStrides []int // in bytes
	elementBytes           int
	outsideElement         []byte // resampling.outsideValue in the dtype of the result
	rowPieces              int    // number of pieces of a row
}

// selectionKernel returns the kernel of a resampling that copies elements.
func (r *resampling) selectionKernel(c *graph.Call) *graph.Kernel {
	src, dst := c.Meta(0), c.Out[0]
	cols := dst.Shape[dst.Rank()-1]
	kernel := &graph.Kernel{}
	s := &selection{tables: make([]indexTable, dst.Rank()), shape: dst.Shape, dstStrides: kit.ByteStrides(dst),
		srcStrides: kit.ByteStrides(src), elementBytes: dst.DType.Size(), outsideElement: make([]byte, dst.DType.Size()),
		rowPieces: kit.DivUp(cols, maxPieceElements)}
	for d, n := range dst.Shape {
		s.tables[d] = newIndexTable(kernel, n, func(i int) int {
			index := r.sourceIndex(d, i)
			if index < 0 {
				return -1 // also if the stride is 0
			}
			return index * s.srcStrides[d]
		})
	}
	convert := tensor.Converter(dst.DType, tensor.Float64)
	convert(unsafe.Pointer(&s.outsideElement[0]), unsafe.Pointer(&r.outsideValue), 0, 0, 1)
	units, unitElements := dst.Numel()/cols*s.rowPieces, min(cols, maxPieceElements)
	kernel.Phases = append(kernel.Phases, copies.ChunkedPhase(units, unitElements,
		func(mem *graph.Mem, begin, end int) error {
			for unit := begin; unit < end; unit++ {
				s.copyPiece(mem, unit/s.rowPieces, unit%s.rowPieces)
			}
			return nil
		}))
	return kernel
}

// copyPiece copies a piece of a row. row is the row-major index of the row over all dimensions but the last.
func (s *selection) copyPiece(mem *graph.Mem, row, piece int) {
	last := len(s.shape) - 1
	dstRow, srcRow, isRowOutside := s.rowOffsets(mem, row)
	first := piece * maxPieceElements
	offsets := s.tables[last].indicesOf(mem)[first:min(s.shape[last], first+maxPieceElements)]
	target := unsafe.Add(mem.Ptrs[0], dstRow+first*s.dstStrides[last])
	if !isRowOutside && !slices.ContainsFunc(offsets, func(offset int) bool { return offset < 0 }) {
		kit.GatherLoops[s.elementBytes](target, unsafe.Add(mem.Ptrs[1], srcRow), s.dstStrides[last], offsets)
		return
	}
	for i, offset := range offsets {
		source := unsafe.Pointer(&s.outsideElement[0])
		if !isRowOutside && offset >= 0 {
			source = unsafe.Add(mem.Ptrs[1], srcRow+offset)
		}
		kit.CopyElement(unsafe.Add(target, i*s.dstStrides[last]), source, s.elementBytes)
	}
}

// rowOffsets returns the byte offsets of a row in result and operand. isOutside is set if an index of the row has no
// taps; then src is not valid.
func (s *selection) rowOffsets(mem *graph.Mem, row int) (dst, src int, isOutside bool) {
	for d := len(s.shape) - 2; d >= 0; d-- {
		i := row % s.shape[d]
		row /= s.shape[d]
		srcOffset := s.tables[d].indicesOf(mem)[i]
		isOutside = isOutside || srcOffset < 0
		dst += i * s.dstStrides[d]
		src += srcOffset
	}
	return dst, src, isOutside
}

// sourceIndex returns the index in the operand from which index i of the result is copied, along dimension d. It
// returns -1 if index i has no tap.
func (r *resampling) sourceIndex(d, i int) int {
	if r.taps[d] == nil {
		return i
	}
	source := -1
	r.taps[d].eachNonzero(i, func(element int, _ float64) { source = element })
	return source
}

// reference is the reference implementation. It copies elements, or computes weighted sums one dimension after another
// in the dtype of the kernel.
func (r *resampling) reference(self *tensor.Tensor) *tensor.Tensor {
	out := tensor.Zeros(self.DType, r.shape(self.Shape)...)
	switch isFloat32 := resampleDType(self.DType) == tensor.Float32; {
	case out.Numel() == 0:
		return out
	case !r.isSelection() && isFloat32:
		return referenceSums[float32](r, self)
	case !r.isSelection():
		return referenceSums[float64](r, self)
	}
	kit.EachIndex(out.Shape, func(index []int) {
		source, isOutside := slices.Clone(index), false
		for d := range source {
			source[d] = r.sourceIndex(d, index[d])
			isOutside = isOutside || source[d] < 0
		}
		if isOutside {
			out.Set(tensor.FloatScalar(r.outsideValue), index...)
		} else {
			out.Set(self.At(source...), index...)
		}
	})
	return out
}

// referenceSums computes weighted sums, one dimension after another. Each product and each sum is rounded to T.
func referenceSums[T float32 | float64](r *resampling, self *tensor.Tensor) *tensor.Tensor {
	dtype := tensor.DTypeOf[T]()
	input := self.CopyTo(tensor.New(dtype, self.Shape...))
	for _, axis := range r.passOrder(self.Shape) {
		operand, shape := input, slices.Clone(input.Shape)
		shape[axis] = r.taps[axis].outSize
		input = tensor.Zeros(dtype, shape...)
		kit.EachIndex(shape, func(index []int) {
			source, sum, taps := slices.Clone(index), T(r.outsideValue), 0
			r.taps[axis].eachNonzero(index[axis], func(element int, weight float64) {
				source[axis] = element
				product := T(T(weight) * T(operand.At(source...).Float()))
				if taps++; taps == 1 {
					sum = product
				} else {
					sum += product
				}
			})
			input.Set(tensor.FloatScalar(float64(sum)), index...)
		})
	}
	return input.CopyTo(tensor.New(self.DType, input.Shape...))
}

// cubicWeights returns the weights of the four elements around a position, by Keys's cubic convolution with the
// coefficient a. The position is between the second and the third element, at distance t from the second. inner is the
// convolution's kernel at distances up to 1, and outer at distances from 1 to 2. Each float64(...) rounds a product, so
// that the compiler uses no fused multiply-add.
func cubicWeights(t, a float64) [4]float64 {
	inner := func(x float64) float64 { return float64((float64((a+2)*x)-(a+3))*x*x) + 1 }
	outer := func(x float64) float64 {
		return float64((float64((float64(a*x)-float64(5*a))*x)+float64(8*a))*x) - float64(4*a)
	}
	return [4]float64{outer(t + 1), inner(t), inner(1 - t), outer(2 - t)}
}

// nearestIndex returns the function from indices of the output to indices of the input. factor is the factor
// outputSize/inputSize that the op's caller gave, or a number <= 0 if none was given. As in PyTorch, the arithmetic is
// float32 except for float64 images. If the output is twice as large as the input, PyTorch's kernel for channels-last
// images halves the index and ignores the factor. The function uses the factor for every layout.
func nearestIndex(dtype tensor.DType, inputSize, outputSize int, factor float64) func(i int) int {
	scale := float64(inputSize) / float64(outputSize)
	if factor > 0 {
		scale = 1 / factor
	}
	if dtype != tensor.Float64 && factor <= 0 {
		scale = float64(float32(inputSize) / float32(outputSize))
	}
	return func(i int) int {
		x := float32(float64(i) * scale)
		if dtype != tensor.Float64 {
			x = float32(i) * float32(scale)
		}
		return clampIndex(math.Floor(float64(x)), inputSize)
	}
}

// clampIndex returns floor(x), clamped to the range from 0 to size-1. It returns 0 for NaN.
func clampIndex(x float64, size int) int {
	switch {
	case x >= float64(size-1):
		return size - 1
	case x >= 0:
		return int(x)
	}
	return 0
}
