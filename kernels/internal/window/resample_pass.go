package window

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The kernel of a [resampling] that computes weighted sums runs a pass for each dimension that changes. A pass reads a
// dense array [outer, inSize, inner] and writes a dense array [outer, outSize, inner]. A row has `inner` contiguous
// elements. Each row of the result is a weighted sum of rows of the operand, which are the taps ([axisTaps]).
//
// For example, the pass that doubles the height of row-major images [3, 32, 48] has outer 3, inSize 32, outSize 64 and
// inner 48. In linear interpolation, row 3 of an image in the result is 0.75*(row 1) + 0.25*(row 2).

// passGeometry has the sizes of the operand of a pass, and the taps of the resampled dimension. The field outSize of
// taps has the size of this dimension in the result.
type passGeometry struct {
	outer, inSize, inner int
	taps                 *axisTaps
}

// resamplePass is a pass that computes in T. Rows of at least minRowElements elements are summed by compiled loops
// (resample_rows.go). Shorter rows are summed element by element in Go (resample_gather.go).
type resamplePass[T float32 | float64] struct {
	passGeometry
	src, dst     kit.Buffer   // operand and result
	table        *tapTable[T] // lists the elements and weights of the taps
	outsideValue T            // the value of results without taps
	rowLoops                  // only for rows that are summed by compiled loops
}

// resampleKernel returns the kernel of weighted sums. The kernel first copies the operand to a dense array of T, whose
// dimensions have the order of the result. It then runs the passes. Finally it copies the array of the last pass to the
// result. Each of the two copies is omitted if it would change nothing.
func resampleKernel[T float32 | float64](resample *resampling, call *graph.Call) (*graph.Kernel, error) {
	kernel, order := &passKernel{dtype: tensor.DTypeOf[T]()}, storageOrder(call.Out[0])
	operand, err := permuted(kit.InBuffer(call, 0), order)
	if err != nil {
		return nil, err
	}
	result, err := permuted(kit.OutBuffer(call, 0), order)
	if err != nil {
		return nil, err
	}
	current := operand
	if !kernel.isDense(operand) {
		current = kernel.newScratch(operand.Meta.Shape)
		kernel.addCopy(current, operand)
	}
	lastPassWritesResult := kernel.isDense(result)
	geometries := resample.passes(current.Meta.Shape, order)
	for i, geometry := range geometries {
		pass := &resamplePass[T]{passGeometry: geometry, src: current, outsideValue: T(resample.outsideValue)}
		pass.table = newTapTable[T](&kernel.Kernel, geometry.taps) // may add a phase that computes the table
		if i == len(geometries)-1 && lastPassWritesResult {
			pass.dst = result
		} else {
			pass.dst = kernel.newScratch([]int{geometry.outer, geometry.taps.outSize, geometry.inner})
		}
		phase, err := pass.phase()
		if err != nil {
			return nil, err
		}
		kernel.Phases = append(kernel.Phases, phase)
		current = pass.dst
	}
	if !lastPassWritesResult {
		current.Meta = tensor.New(kernel.dtype, result.Meta.Shape...)
		kernel.addCopy(result, current)
	}
	return &kernel.Kernel, nil
}

// phase returns the phase of the pass.
func (p *resamplePass[T]) phase() (graph.Phase, error) {
	if p.inner < minRowElements {
		return p.gatherPhase(), nil
	}
	return p.rowPhase()
}

// passes returns the passes over an array whose dimensions are stored in the given order. storedShape[i] is the size of
// dimension order[i].
func (r *resampling) passes(storedShape, order []int) (list []passGeometry) {
	current, shape := slices.Clone(storedShape), make([]int, len(storedShape))
	for i, d := range order {
		shape[d] = storedShape[i]
	}
	for _, d := range r.passOrder(shape) {
		i := slices.Index(order, d)
		list = append(list, passGeometry{outer: tensor.Numel(current[:i]), inSize: current[i],
			inner: tensor.Numel(current[i+1:]), taps: r.taps[d]})
		current[i] = r.taps[d].outSize
	}
	return list
}

// passOrder returns the dimensions that change, in the order of their passes. Shrinking dimensions precede growing
// dimensions, which minimizes work. Each pass rounds, so the order of the passes affects results. The order does not
// depend on the layout, so that results do not depend on the layout either.
func (r *resampling) passOrder(shape []int) (list []int) {
	for d, taps := range r.taps {
		if taps != nil && taps.outSize < shape[d] {
			list = append(list, d)
		}
	}
	for d, taps := range slices.Backward(r.taps) {
		if taps != nil && taps.outSize >= shape[d] {
			list = append(list, d)
		}
	}
	return list
}

// storageOrder returns the order of the result's dimensions in memory, the slowest dimension first. The arrays of all
// passes have this order. If the result is not dense, the order is row-major.
func storageOrder(out tensor.Meta) []int {
	if order, ok := tensor.OrderOf(out); ok {
		return order.Dims()
	}
	return tensor.RowMajorOrder(out.Rank()).Dims()
}

// permuted returns a view of a value with its dimensions in the given order.
func permuted(value kit.Buffer, order []int) (kit.Buffer, error) {
	meta, err := value.Meta.Permute(order)
	value.Meta = meta
	return value, err
}

// passKernel is a kernel to which phases and scratch memory are added. dtype is the dtype of the sums.
type passKernel struct {
	graph.Kernel
	dtype tensor.DType
}

// isDense reports whether the elements of a value are contiguous and have the dtype of the sums.
func (k *passKernel) isDense(value kit.Buffer) bool {
	return value.Meta.DType == k.dtype && value.Meta.IsContiguous()
}

// newScratch adds a dense array of the given shape to the scratch memory.
func (k *passKernel) newScratch(shape []int) kit.Buffer {
	buffer := kit.ScratchBuffer(k.Scratch, tensor.New(k.dtype, shape...))
	k.Scratch += kit.AlignUp(buffer.Meta.Bytes())
	return buffer
}

// addCopy adds a phase that copies src to dst and converts the elements.
func (k *passKernel) addCopy(dst, src kit.Buffer) {
	phase, workerBytes := copies.Phase(copies.Job{Dst: dst, Src: src})
	k.Phases, k.WorkerScratch = append(k.Phases, phase), max(k.WorkerScratch, workerBytes)
}
