package iter

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Reducer is a reduction prepared for fixed layouts. It divides the work into phases, and each phase into chunks, for
// callers that supply workers and memory. It is immutable and safe for concurrent use.
//
// Results are divided into units. A unit is a run of results along the fastest axis that is kept, that is, not reduced.
// If the reduced axis is the fastest in memory, a unit is reduced by rows: each result is computed from a contiguous
// run of the operand. Otherwise it is reduced by columns: a block of results is computed in parallel. If there are few
// units, the reduced range is cut into pieces as well. Partial results then go to scratch memory, and a second phase
// merges them in order. Units and pieces depend only on shapes and strides.
type Reducer struct {
	f           *Fold
	kept, along []axes.Axis
	rows        bool
	unit        int // number of results in a unit; the last unit along the fastest kept axis may have fewer
	pieces      int // number of units along the fastest kept axis
	units       int // total number of units
	perChunk    int // number of units in a chunk
	reduced     int // number of elements of each result
	first       int // position of the first element of a result
	cut, cuts   int // pieces of the reduced range: their length in elements, and their number
	results     int
	ld          axes.Loader
	outs        []reduceOut
	inAt        int  // for a part: byte offset of the first input element
	resumes     bool // the Fold resumes from the contents of the outputs
}

// reduceOut is an output of a Reducer.
type reduceOut struct {
	at          int // for a part: byte offset of the first output element
	size        int // bytes of an element of the fold's dtype
	plain       bool
	store, load tensor.ConvertFunc // conversion to memory, and back
}

// The pieces of a reduction determine its rounding, so these constants do not depend on the machine. If there are fewer
// than minChunks chunks, the reduced range is cut. All units together then have at most about maxCuts pieces. A unit
// that is reduced by rows has at most rowUnit results.
const (
	minChunks = 16
	maxCuts   = 64
	rowUnit   = 64
	// columnLevel is the number of elements that are folded in a column before the accumulator is merged into the
	// accumulator of the next level. Two levels bound the rounding error.
	columnLevel = 256
)

// plan chooses rows or columns, and sets the units and the pieces.
func (r *Reducer) plan() {
	r.cuts = 1
	r.reduced, r.results = axes.Numel(r.along), axes.Numel(r.kept)
	k, a := r.kept[0], r.along[0]
	if a.In <= k.In || k.N == 1 {
		r.rows = a.N >= 16 || k.N < a.N
	} else {
		r.rows = k.N < 8 && k.N <= a.N
	}
	grain := max(machine.ReduceGrain/r.f.weight, 1024)
	r.unit = min(max(k.N, 1), axes.BlockLen)
	if r.rows {
		r.unit = min(r.unit, rowUnit, max(1, grain/max(r.reduced, 1)))
	}
	r.pieces = (k.N + r.unit - 1) / r.unit
	r.units = r.pieces * axes.Numel(r.kept[1:])
	work := r.unit * max(r.reduced, 1)
	r.perChunk = max(1, grain/work)
	r.cut = r.reduced
	if chunks := (r.units + r.perChunk - 1) / r.perChunk; r.units > 0 && chunks < minChunks && work >= 2*grain {
		r.cuts = min((work+grain-1)/grain, (maxCuts+r.units-1)/r.units)
		r.cut = (r.reduced + r.cuts - 1) / r.cuts
		if r.rows && r.cut > axes.BlockLen {
			r.cut = (r.cut + axes.BlockLen - 1) / axes.BlockLen * axes.BlockLen
		}
		r.cuts = (r.reduced + r.cut - 1) / r.cut
	}
}

// Scratch returns the size in bytes of the memory that all chunks of all phases share.
func (r *Reducer) Scratch() int {
	if r.cuts == 1 {
		return 0
	}
	return alignUp(r.cuts * r.results * r.f.size)
}

// Worker returns the size in bytes of the memory that a worker needs while it runs a chunk.
func (r *Reducer) Worker() int {
	return 2*alignUp(r.unit*r.f.size) + 2*axes.BlockBytes + alignUp(8*len(r.kept)) + alignUp(8*len(r.along))
}

// Phases returns the number of phases. A phase starts after all chunks of the previous one.
func (r *Reducer) Phases() int { return min(r.cuts, 2) }

// Chunks returns the number of chunks of a phase, which depends only on shapes and strides. Chunks may run concurrently
// and in any order.
func (r *Reducer) Chunks(phase int) int {
	switch {
	case phase > 0:
		return r.units
	case r.cuts > 1:
		return r.units * r.cuts
	}
	return (r.units + r.perChunk - 1) / r.perChunk
}

// Run runs a chunk of a phase. ptrs are the addresses of the operands' first elements, outputs first, as from
// [Iterator.Bind]. scratch and worker are memory of the sizes [Reducer.Scratch] and [Reducer.Worker], 64-byte aligned,
// and need not be initialized. Run does not allocate.
//
// Run is unsafe: addresses are not checked against the operands. It fails if phase, chunk or the number of addresses is
// wrong, if an address is nil, or if scratch or worker is too small.
func (r *Reducer) Run(phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error {
	if err := r.checkRun(phase, chunk, ptrs, scratch, worker); err != nil {
		return err
	}
	m := r.memory(worker)
	in := ptrs[len(r.outs)]
	switch {
	case r.cuts == 1:
		for u := chunk * r.perChunk; u < min((chunk+1)*r.perChunk, r.units); u++ {
			n := r.seekUnit(&m, u)
			r.finish(&m, ptrs, r.reduce(&m, in, u, n, 0, r.reduced), u, n)
		}
	case phase == 0:
		u, c := chunk%r.units, chunk/r.units
		n := r.seekUnit(&m, u)
		acc := r.reduce(&m, in, u, n, c*r.cut, min((c+1)*r.cut, r.reduced))
		copy(r.partialMemory(scratch, c, u, n), unsafe.Slice((*byte)(acc), n*r.f.size))
	default:
		n := r.seekUnit(&m, chunk)
		r.f.init(m.acc, n)
		for c := range r.cuts {
			r.f.merge(m.acc, unsafe.Pointer(unsafe.SliceData(r.partialMemory(scratch, c, chunk, n))), n)
		}
		r.finish(&m, ptrs, m.acc, chunk, n)
	}
	return nil
}

// checkRun checks the arguments of Run.
func (r *Reducer) checkRun(phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error {
	switch {
	case r == nil || r.f == nil:
		return errors.New("iter: the Reducer was not made by an Iterator")
	case phase < 0 || phase >= r.Phases() || chunk < 0 || chunk >= r.Chunks(phase):
		return fmt.Errorf("iter: chunk %d of phase %d of a reduction in %d phases", chunk, phase, r.Phases())
	case len(ptrs) != len(r.outs)+1:
		return fmt.Errorf("iter: %d addresses for a reduction with %d outputs and an input", len(ptrs), len(r.outs))
	case len(scratch) < r.Scratch() || len(worker) < r.Worker():
		return fmt.Errorf("iter: %d and %d bytes of memory for a reduction that needs %d for all and %d for each worker",
			len(scratch), len(worker), r.Scratch(), r.Worker())
	}
	for i, p := range ptrs {
		if p == nil && (i < len(r.outs) || r.reduced > 0) {
			return fmt.Errorf("iter: address %d of a reduction is nil", i)
		}
	}
	return nil
}

// partialMemory returns the memory in scratch for the n accumulators of piece c of unit u.
func (r *Reducer) partialMemory(scratch []byte, c, u, n int) []byte {
	at := c*r.results + u/r.pieces*r.kept[0].N + u%r.pieces*r.unit
	return scratch[at*r.f.size : (at+n)*r.f.size]
}
