package window

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// A [resamplePass] computes an array [outer, outSize, inner] from an array [outer, inSize, inner]. A row has `inner`
// contiguous elements. If rows are long, the functions of this file compute each row of the result by compiled loops. A
// row of the result is a weighted sum of rows of the operand, which are the taps. For example, if linear interpolation
// doubles inSize, row 3 of the result is 0.75*(row 1) + 0.25*(row 2). The table of the pass has the taps and weights of
// each index in [0, outSize).

const (
	// minRowElements is the minimum number of elements of a row that compiled loops sum.
	minRowElements = 8
	// maxSumTaps is the maximum number of taps that one loop sums. A sum of more taps takes several loops.
	maxSumTaps = 4
	// minLongRow is the minimum number of elements of a long row. Each long row takes a separate call of a loop.
	// Shorter rows share a call if they have the same weights. Such rows have the same index of the resampled
	// dimension, and consecutive outer indices.
	minLongRow = 1024
	// maxSharedRows is the maximum number of rows that share a call. More rows would not fit in the cache together.
	maxSharedRows = 8
)

// rowLoops has the loops of a pass. A sum of 6 taps, for example, takes startSum[3], which stores the sum of 4 weighted
// taps in the result, and then addToSum[1], which adds 2 weighted taps to the result.
type rowLoops struct {
	startSum [maxSumTaps]*loops.Loop // element i is for i+1 taps
	addToSum [maxSumTaps]*loops.Loop // element i is for i+1 taps
	state    graph.PerWorker[loopState]
}

// loopState has the arguments of a loop. The first argument is the result. For each tap, a row of the operand and a
// weight follow. A loop of addToSum has a last argument, the sum to which it adds, which is the result again.
type loopState struct {
	loops.State
	ptrs       [2 + 2*maxSumTaps]unsafe.Pointer // by argument: address of the first row
	rowStrides [2 + 2*maxSumTaps]int            // by argument: distance between rows, in bytes
}

// rowPhase compiles the loops and returns the phase of the pass. A unit of work computes the rows that share a call:
// one index of the resampled dimension, and up to rowsPerCall outer indices.
func (p *resamplePass[T]) rowPhase() (graph.Phase, error) {
	if err := p.rowLoops.compile(tensor.DTypeOf[T](), p.taps.maxTaps); err != nil {
		return graph.Phase{}, err
	}
	outSize, maxRows := p.taps.outSize, rowsPerCall(p.outer, p.inner)
	units := kit.DivUp(p.outer, maxRows) * outSize
	unitWork := kit.BoundedProduct(p.inner*maxRows, p.taps.maxTaps) // multiply-adds
	unitsPerChunk := max(1, machine.MoveGrain/max(1, unitWork))
	return graph.Phase{Chunks: kit.DivUp(units, unitsPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		src, dst, lists := p.src.Address(mem), p.dst.Address(mem), p.table.listsOf(mem)
		state := p.state.Get(mem)
		state.Context = mem.Context
		for unit := chunk * unitsPerChunk; unit < min(units, (chunk+1)*unitsPerChunk); unit++ {
			outer, index := unit/outSize*maxRows, unit%outSize
			rows := min(maxRows, p.outer-outer)
			firstResult := kit.AddressOf[T](dst, (outer*outSize+index)*p.inner)
			elements, weights := lists.at(index) // by tap: the row of the operand, and the weight
			if len(elements) == 0 {
				p.storeOutside(firstResult, rows)
			} else {
				p.sumRows(state, elements, weights, firstResult, kit.AddressOf[T](src, outer*p.inSize*p.inner), rows)
			}
		}
		clear(state.ptrs[:])
		state.Release() // like clear: the state outlives the run and must not keep memory alive
		return nil
	}}, nil
}

// rowsPerCall returns the maximum number of rows that share a call of a loop.
func rowsPerCall(outer, inner int) int {
	if inner >= minLongRow {
		return 1
	}
	return max(1, min(outer, maxSharedRows))
}

// compile compiles the loops for sums of up to maxTaps taps.
func (l *rowLoops) compile(dtype tensor.DType, maxTaps int) (err error) {
	for i := range min(maxTaps, maxSumTaps) {
		const startsSum, addsToSum = false, true
		if l.startSum[i], err = sumLoop(dtype, i+1, startsSum); err != nil {
			return err
		}
		if maxTaps > maxSumTaps { // a sum may take several loops
			if l.addToSum[i], err = sumLoop(dtype, i+1, addsToSum); err != nil {
				return err
			}
		}
	}
	return nil
}

// sumLoop compiles a loop that sums weighted taps. Operand 2*k is the elements of tap k, and operand 2*k+1 is the
// weight of tap k. If addsToSum is true, the loop adds the taps to a sum, which is the last operand.
func sumLoop(dtype tensor.DType, taps int, addsToSum bool) (*loops.Loop, error) {
	operands := 2 * taps
	if addsToSum {
		operands++
	}
	builder := expr.NewBuilder(slices.Repeat([]tensor.DType{dtype}, operands)...)
	isScalar, sum := make([]bool, operands), expr.None
	if addsToSum {
		sum = builder.Load(2 * taps)
	}
	for tap := range taps {
		isScalar[2*tap+1] = true // the weight is the same for all elements of a row
		product := builder.Emit(expr.Mul, builder.Load(2*tap), builder.Load(2*tap+1))
		if sum == expr.None {
			sum = product
		} else {
			sum = builder.Emit(expr.Add, sum, product)
		}
	}
	code, err := builder.Build(builder.Real(sum)) // the result of the loop is the real value sum
	if err != nil {
		return nil, err
	}
	return loops.New(&expr.Loop{Code: code, Uniform: isScalar}, loops.Options{})
}

// storeOutside stores outsideValue in rows of the result with consecutive outer indices. dst is the address of the
// first of these rows.
func (p *resamplePass[T]) storeOutside(dst unsafe.Pointer, rows int) {
	for row := range rows {
		result := unsafe.Slice((*T)(kit.AddressOf[T](dst, row*p.taps.outSize*p.inner)), p.inner)
		for i := range result {
			result[i] = p.outsideValue
		}
	}
}

// sumRows computes rows of the result with the same taps and with consecutive outer indices. dst is the address of the
// first of these rows. src is the address of the operand's row 0 at the same outer index.
func (p *resamplePass[T]) sumRows(state *loopState, elements []int, weights []T, dst, src unsafe.Pointer, rows int) {
	size := int(unsafe.Sizeof(p.outsideValue))
	dstStride, srcStride := p.taps.outSize*p.inner*size, p.inSize*p.inner*size
	for firstTap := 0; firstTap < len(elements); {
		taps := min(len(elements)-firstTap, maxSumTaps)
		state.ptrs[0], state.rowStrides[0] = dst, dstStride
		for tap := range taps {
			state.ptrs[1+2*tap] = kit.AddressOf[T](src, elements[firstTap+tap]*p.inner)
			state.rowStrides[1+2*tap] = srcStride
			state.ptrs[2+2*tap], state.rowStrides[2+2*tap] = unsafe.Pointer(&weights[firstTap+tap]), 0
		}
		loop, args := p.startSum[taps-1], 1+2*taps
		if firstTap > 0 {
			loop = p.addToSum[taps-1]
			state.ptrs[args], state.rowStrides[args] = dst, dstStride
			args++
		}
		loop.Run(&state.State, state.ptrs[:args], state.rowStrides[:args], p.inner, rows)
		firstTap += taps
	}
}
