// Package multiply runs batches of matrix products as phases of a kernel ([Multiplier]). Each product C = A·B is
// computed by package gemm. The package also has code that products and convolutions share: packed operands ([Panels]),
// the order of work ([StripOrder]), epilogues in registers ([TileEpilogue]), the conversion of sums to bytes
// ([SumConversion], [Requantizer]), and the names of rates (work.go).
//
// The depth of a product is the size of the dimension that is summed. A term is an index of this dimension. A lane is a
// row of A or a column of B. A panel is a group of lanes, packed so that the elements of one depth index are
// contiguous. A tile is a rectangle of C. An entry is one product of a batch.
package multiply

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Multiplier runs one gemm plan on many entries as phases of a kernel. An entry is a triple of matrices A, B and C.
// Matrix products of all ranks and convolutions use a Multiplier.
type Multiplier struct {
	Plan    *gemm.Plan
	Entries int
	MACs    int // number of multiplications of one entry

	// A, B, C, Bias and Add are the offsets of each entry, in elements, from the addresses that Bind sets. A nil list
	// means that all offsets are 0.
	A, B, C, Bias, Add []int
	// Bind sets the base addresses of a job (A, B, C, Bias and Add) from the operands of a run.
	Bind func(m *graph.Mem, j *Job)
	// Prepare sets the callbacks of a new job. It may be nil.
	Prepare func(j *Job)

	elemBytes              int // bytes of an element
	epilogue               *fusion.Epilogue
	cRowStride, cColStride int // strides of C, for the epilogue

	jobs graph.PerWorker[Job]
}

// Job is the state of one chunk while it runs. A worker reuses its job for all chunks, because the callbacks in Args
// are closures over the job.
type Job struct {
	prepared  bool // whether the callbacks of Args are set
	Args      gemm.Args
	A, B, C   unsafe.Pointer // addresses of entry 0
	Bias, Add unsafe.Pointer
	EntryAdd  unsafe.Pointer // address of the addend of the current entry
	epilogue  fusion.EpilogueRun
	repeated  gemm.Repeated // recorded calls of a small product, repeated for each entry
	mem       *graph.Mem

	// Buffers of convolutions that pack windows of an image into panels. A tap is an element of the window.

	Lanes    []unsafe.Pointer // by lane: the pixel under a tap; nil in the padding
	Windows  []PixelWindow    // by lane
	Moves    []RowMove        // the copies that fill a panel, tap by tap
	TapStart []int            // by tap: the index of its first move; the last element is the number of moves
	TapPad   []int            // by tap: the number of lanes in the padding
}

const (
	// undividedMACs is the maximum number of multiplications of an entry that is packed and computed by one worker, if
	// there are many entries. The panels of such an entry stay in the worker's cache, and no barrier separates packing
	// from computing.
	undividedMACs = 32 << 20
	// smallMACs is the maximum number of multiplications of an entry that is never divided among workers.
	smallMACs = machine.MACGrain
	// undividedEntries is the minimum number of undivided entries that keeps all workers busy.
	undividedEntries = 16
	// entriesPerCheck is the number of entries between two checks of the context.
	entriesPerCheck = 256
	// panelBytes bounds the packed panels in scratch memory. A wave is a set of entries that are computed together;
	// their panels fit in panelBytes.
	panelBytes = 64 << 20
	// maxWaves bounds the number of waves. For more entries, the waves are larger, and their panels exceed panelBytes.
	maxWaves = 256
)

// Phases returns the work as phases, and the sizes of shared scratch and of worker scratch in bytes. The shared scratch
// starts at scratchOffset.
func (x *Multiplier) Phases(scratchOffset int) (ph []graph.Phase, scratch, worker int) {
	x.elemBytes = x.Plan.DType().Size()
	sharedBytes, workerBytes := kit.AlignUp(x.Plan.SharedBytes()), kit.AlignUp(x.Plan.WorkerBytes())
	if x.Entries == 0 || x.Plan.Tiles(0) == 0 {
		return nil, 0, 0
	}
	if x.Entries > 1 && (x.MACs <= smallMACs || x.Entries >= undividedEntries && x.MACs <= undividedMACs) {
		group := max(1, x.chunkMACs()/max(1, x.MACs))
		return []graph.Phase{{
			Chunks: kit.DivUp(x.Entries, group),
			Run: func(m *graph.Mem, chunk int) error {
				x.runEntries(m, chunk*group, min(x.Entries, (chunk+1)*group), workerBytes)
				return nil
			},
		}}, 0, workerBytes + sharedBytes
	}
	wave := x.Entries
	if sharedBytes > 0 {
		wave = min(wave, max(1, panelBytes/sharedBytes, kit.DivUp(x.Entries, maxWaves)))
	}
	for e := 0; e < x.Entries; e += wave {
		for p := range x.Plan.Phases() {
			ph = append(ph, x.wavePhase(e, min(wave, x.Entries-e), p, scratchOffset, sharedBytes))
		}
	}
	return ph, wave * sharedBytes, workerBytes
}

// Listings returns the machine code of the plan.
func (x *Multiplier) Listings() (list []expr.Listing) {
	x.Plan.Listings(func(name string, assembly func() string) {
		list = append(list, expr.Listing{Name: name, Assembly: assembly})
	})
	return list
}

// chunkMACs returns the number of multiplications per chunk of small entries. A chunk takes tens of microseconds.
func (x *Multiplier) chunkMACs() int {
	switch x.Plan.DType() {
	case tensor.Float32, tensor.Float64:
		return machine.MACGrain
	}
	return machine.PortableMACGrain
}

// wavePhase returns phase p of the plan for n entries from e0 on. Each entry has its own panels in shared scratch
// memory.
func (x *Multiplier) wavePhase(e0, n, p, scratchOffset, sharedBytes int) graph.Phase {
	tiles := x.Plan.Tiles(p)
	return graph.Phase{
		Chunks: n * tiles,
		Run: func(m *graph.Mem, chunk int) error {
			e := chunk / tiles
			j := x.prepareJob(m)
			defer j.release()
			x.setEntry(j, e0+e)
			if x.Plan.Repeat(&j.repeated, &j.Args) {
				x.Plan.RunRepeated(&j.repeated, chunk%tiles, &j.Args)
			} else {
				j.Args.Shared = m.Scratch[scratchOffset+e*sharedBytes:][:x.Plan.SharedBytes()]
				x.Plan.Run(p, chunk%tiles, &j.Args, m.Worker)
			}
			return nil
		},
	}
}

// runEntries runs all phases of entries [e0, e1), one entry after another. Worker memory holds the plan's worker memory
// and, from offset panelsAt on, the panels.
func (x *Multiplier) runEntries(m *graph.Mem, e0, e1, panelsAt int) {
	j := x.prepareJob(m)
	defer j.release()
	j.Args.Shared = m.Worker[panelsAt:][:x.Plan.SharedBytes()]
	for e := e0; e < e1; e++ {
		if (e-e0)%entriesPerCheck == entriesPerCheck-1 {
			m.CheckContext()
		}
		x.setEntry(j, e)
		if x.Plan.Repeat(&j.repeated, &j.Args) {
			for tile := range x.Plan.Tiles(0) {
				x.Plan.RunRepeated(&j.repeated, tile, &j.Args)
			}
		} else {
			x.Plan.RunAll(&j.Args, m.Worker)
		}
	}
}

// SetEpilogue sets the epilogue that is applied to every completed tile of C. e may be nil. s is the spec of the plan.
func (x *Multiplier) SetEpilogue(e *fusion.Epilogue, s gemm.Spec) {
	x.epilogue, x.cRowStride, x.cColStride = e, s.CRowStride, s.CColStride
}

// prepareJob returns the worker's job with the addresses of a run.
func (x *Multiplier) prepareJob(m *graph.Mem) *Job {
	j := x.jobs.Of(m)
	if x.Prepare != nil && !j.prepared {
		x.Prepare(j)
	}
	if x.epilogue != nil {
		if !j.prepared {
			x.chainEpilogue(j)
		}
		x.epilogue.Enter(&j.epilogue, m)
	}
	if !j.prepared {
		j.Args.Check = func() { j.mem.CheckContext() }
	}
	j.prepared, j.mem = true, m
	x.Bind(m, j)
	return j
}

// chainEpilogue makes a job apply the epilogue after the callback that is already set.
func (x *Multiplier) chainEpilogue(j *Job) {
	previous := j.Args.Epilogue
	j.Args.Epilogue = func(i0, i1, j0, j1 int) {
		if previous != nil {
			previous(i0, i1, j0, j1)
		}
		entry := int(uintptr(j.Args.C)-uintptr(j.C)) / x.elemBytes
		x.epilogue.Do(&j.epilogue, entry+i0*x.cRowStride+j0*x.cColStride, i1-i0, x.cRowStride, j1-j0, x.cColStride)
	}
}

// release clears all addresses in a job, so that the memory of the run can be freed.
func (j *Job) release() {
	a := &j.Args
	a.A, a.B, a.C, a.Bias, a.Shared = nil, nil, nil, nil, nil
	j.A, j.B, j.C, j.Bias, j.Add, j.EntryAdd, j.mem = nil, nil, nil, nil, nil, nil, nil
	clear(j.Lanes)
	j.repeated.Release()
	j.epilogue.Release()
}

// setEntry sets the addresses of the matrices of entry e.
func (x *Multiplier) setEntry(j *Job, e int) {
	j.Args.A, j.Args.B = x.entryAt(j.A, x.A, e), x.entryAt(j.B, x.B, e)
	j.Args.C, j.Args.Bias = x.entryAt(j.C, x.C, e), x.entryAt(j.Bias, x.Bias, e)
	j.EntryAdd = x.entryAt(j.Add, x.Add, e)
}

// entryAt returns the address of a matrix of an entry. base is nil if the operand has no elements or is omitted.
func (x *Multiplier) entryAt(base unsafe.Pointer, offsets []int, e int) unsafe.Pointer {
	if base == nil || offsets == nil {
		return base
	}
	return unsafe.Add(base, offsets[e]*x.elemBytes)
}

// MaxThin is the maximum number of rows of A, or of columns of B, of a thin product. gemm reads the other, larger
// matrix of a thin product in place. Packing the larger matrix would double the memory traffic.
const MaxThin = 4

// RowMove copies N pixels of an input row, with a stride, to consecutive lanes of a panel.
type RowMove struct {
	Lane int // first lane
	N    int // number of pixels
	From int // offset of the first pixel in its channel, in elements
}

// PixelWindow is the window of an output pixel in the input.
type PixelWindow struct {
	Base   unsafe.Pointer // address of the image
	IH, IW int            // row and column of the window's first pixel, which may be in the padding
}
