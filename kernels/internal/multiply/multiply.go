// Package multiply runs batches of matrix products as phases of a kernel ([Multiplier]). Each product C = A·B is
// computed by package gemm. The package also has code that products and convolutions share: packed operands
// ([Panels]), the order of work ([StripOrder]), epilogues in registers ([TileEpilogue]), the conversion of sums to
// bytes ([SumConversion], [Requantizer]), and the names of rates (work.go).
//
// The depth of a product is the size of the dimension that is summed. A term is an index of this dimension. A lane
// is a row of A or a column of B. A panel is a group of lanes, packed so that the elements of one term are
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
// Matrix products of all ranks and convolutions use a Multiplier. For example, the product of arrays of shapes
// [8, 16, 64] and [8, 64, 32] has 8 entries. The plan multiplies a 16x64 by a 64x32 matrix, MACs is 16*64*32, and the
// offsets C are 0, 512, 1024, ..., 3584.
type Multiplier struct {
	Plan    *gemm.Plan
	Entries int
	MACs    int // number of multiplications of one entry

	// A, B, C, Bias and Add are the offsets of each entry, in elements, from the addresses that Bind sets. A nil list
	// means that all offsets are 0. Add is a matrix that a callback (see Prepare) adds to C, as in addmm.
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
	isPrepared bool // whether the callbacks of Args are set
	Args       gemm.Args
	A, B, C    unsafe.Pointer // addresses of entry 0
	Bias, Add  unsafe.Pointer
	EntryAdd   unsafe.Pointer // address of the addend of the current entry
	epilogue   fusion.EpilogueRun
	replay     gemm.Replay // calls of machine code for a small product without panels, repeated for each entry
	mem        *graph.Mem

	// Buffers of convolutions that pack windows of an image into panels. A tap is an element of the window.

	Lanes    []unsafe.Pointer // by lane: the pixel under a tap; nil in the padding
	Windows  []PixelWindow    // by lane
	Moves    []RowMove        // the copies that fill a panel, tap by tap
	TapStart []int            // by tap: the index of its first move; the last element is the number of moves
	TapPad   []int            // by tap: the number of lanes in the padding
}

const (
	// maxUndividedMACs is the maximum number of multiplications of an entry that is packed and computed by one worker, if
	// there are many entries. The panels of such an entry stay in the worker's cache, and no barrier separates packing
	// from computing.
	maxUndividedMACs = 32 << 20
	// maxSmallMACs is the maximum number of multiplications of an entry that is never divided among workers.
	maxSmallMACs = machine.MACGrain
	// minUndividedEntries is the minimum number of undivided entries that keeps all workers busy.
	minUndividedEntries = 16
	// entriesPerCheck is the number of entries between two checks of the context.
	entriesPerCheck = 256
	// maxPanelBytes bounds the packed panels in scratch memory. A wave is a set of entries that are computed together;
	// their panels fit in maxPanelBytes.
	maxPanelBytes = 64 << 20
	// maxWaves bounds the number of waves. For more entries, the waves are larger, and their panels exceed maxPanelBytes.
	maxWaves = 256
	// firstPhase is the index of the first phase of a plan. A plan without panels has no other phase.
	firstPhase = 0
)

// Phases returns the work as phases, and the sizes of shared scratch and of worker scratch in bytes. The shared
// scratch starts at scratchOffset.
func (multiplier *Multiplier) Phases(scratchOffset int) (phases []graph.Phase, scratchBytes, workerScratchBytes int) {
	multiplier.elemBytes = multiplier.Plan.DType().Size()
	sharedBytes, workerBytes := kit.AlignUp(multiplier.Plan.SharedBytes()), kit.AlignUp(multiplier.Plan.WorkerBytes())
	if multiplier.Entries == 0 || multiplier.Plan.Tiles(firstPhase) == 0 {
		return nil, 0, 0
	}
	if multiplier.keepsEntriesWhole() {
		return []graph.Phase{multiplier.wholeEntriesPhase(workerBytes)}, 0, workerBytes + sharedBytes
	}
	waveEntries := multiplier.Entries
	if sharedBytes > 0 {
		waveEntries = min(waveEntries, max(1, maxPanelBytes/sharedBytes, kit.DivUp(multiplier.Entries, maxWaves)))
	}
	for firstEntry := 0; firstEntry < multiplier.Entries; firstEntry += waveEntries {
		entries := min(waveEntries, multiplier.Entries-firstEntry)
		for phase := range multiplier.Plan.Phases() {
			phases = append(phases, multiplier.wavePhase(firstEntry, entries, phase, scratchOffset, sharedBytes))
		}
	}
	return phases, waveEntries * sharedBytes, workerBytes
}

// keepsEntriesWhole reports whether each entry is packed and computed by one worker.
func (multiplier *Multiplier) keepsEntriesWhole() bool {
	isSmall := multiplier.MACs <= maxSmallMACs
	isOneOfMany := multiplier.MACs <= maxUndividedMACs && multiplier.Entries >= minUndividedEntries
	return multiplier.Entries > 1 && (isSmall || isOneOfMany)
}

// wholeEntriesPhase returns the only phase of a multiplier that keeps entries whole: a chunk is a range of entries.
func (multiplier *Multiplier) wholeEntriesPhase(panelsOffset int) graph.Phase {
	chunkEntries := max(1, multiplier.chunkMACs()/max(1, multiplier.MACs))
	return graph.Phase{
		Chunks: kit.DivUp(multiplier.Entries, chunkEntries),
		Run: func(mem *graph.Mem, chunk int) error {
			begin, end := chunk*chunkEntries, min(multiplier.Entries, (chunk+1)*chunkEntries)
			multiplier.runEntries(mem, begin, end, panelsOffset)
			return nil
		},
	}
}

// Listings returns the machine code of the plan.
func (multiplier *Multiplier) Listings() (list []expr.Listing) {
	multiplier.Plan.Listings(func(name string, assembly func() string) {
		list = append(list, expr.Listing{Name: name, Assembly: assembly})
	})
	return list
}

// chunkMACs returns the number of multiplications per chunk of small entries. A chunk takes tens of microseconds.
func (multiplier *Multiplier) chunkMACs() int {
	switch multiplier.Plan.DType() {
	case tensor.Float32, tensor.Float64:
		return machine.MACGrain
	}
	return machine.PortableMACGrain // other dtypes have no machine code
}

// wavePhase returns a phase of the plan for a wave: the given number of entries from firstEntry on, which are computed
// together. Each entry has its own panels in shared scratch memory.
func (multiplier *Multiplier) wavePhase(firstEntry, entries, phase, scratchOffset, sharedBytes int) graph.Phase {
	tiles := multiplier.Plan.Tiles(phase)
	phaseWork := graph.Phase{
		Chunks: entries * tiles,
		Run: func(mem *graph.Mem, chunk int) error {
			entry, tile := chunk/tiles, chunk%tiles
			job := multiplier.prepareJob(mem)
			defer job.release()
			multiplier.setEntry(job, firstEntry+entry)
			if multiplier.Plan.PrepareReplay(&job.replay, &job.Args) {
				multiplier.Plan.RunReplay(&job.replay, tile, &job.Args)
			} else {
				job.Args.Shared = mem.Scratch[scratchOffset+entry*sharedBytes:][:multiplier.Plan.SharedBytes()]
				multiplier.Plan.Run(phase, tile, &job.Args, mem.WorkerScratch)
			}
			return nil
		},
	}
	if multiplier.Plan.JoinsTiles() {
		phaseWork.RunRange = func(mem *graph.Mem, begin, end int) error {
			multiplier.runTiles(mem, firstEntry, begin, end)
			return nil
		}
	}
	return phaseWork
}

// runTiles runs tiles [begin, end) of a plan that computes neighbouring tiles together (JoinsTiles). Such a plan has
// one phase. The tiles of an entry are consecutive. Tile 0 is the first tile of entry firstEntry.
func (multiplier *Multiplier) runTiles(mem *graph.Mem, firstEntry, begin, end int) {
	job, tiles := multiplier.prepareJob(mem), multiplier.Plan.Tiles(firstPhase)
	defer job.release()
	for begin < end {
		entry, tile := begin/tiles, begin%tiles
		tileEnd := min(tile+end-begin, tiles)
		multiplier.setEntry(job, firstEntry+entry)
		multiplier.Plan.RunRange(tile, tileEnd, &job.Args, mem.WorkerScratch)
		begin += tileEnd - tile
	}
}

// runEntries runs all phases of entries [begin, end), one entry after another. Worker memory holds the plan's worker
// memory and, from offset panelsOffset on, the panels.
func (multiplier *Multiplier) runEntries(mem *graph.Mem, begin, end, panelsOffset int) {
	job := multiplier.prepareJob(mem)
	defer job.release()
	job.Args.Shared = mem.WorkerScratch[panelsOffset:][:multiplier.Plan.SharedBytes()]
	for entry := begin; entry < end; entry++ {
		if (entry-begin)%entriesPerCheck == entriesPerCheck-1 {
			mem.CheckContext()
		}
		multiplier.setEntry(job, entry)
		if multiplier.Plan.PrepareReplay(&job.replay, &job.Args) {
			for tile := range multiplier.Plan.Tiles(firstPhase) {
				multiplier.Plan.RunReplay(&job.replay, tile, &job.Args)
			}
		} else {
			multiplier.Plan.RunAll(&job.Args, mem.WorkerScratch)
		}
	}
}

// SetEpilogue sets the epilogue that is applied to every completed tile of C. The epilogue may be nil. spec is the
// plan's spec.
func (multiplier *Multiplier) SetEpilogue(epilogue *fusion.Epilogue, spec gemm.Spec) {
	multiplier.epilogue, multiplier.cRowStride, multiplier.cColStride = epilogue, spec.CRowStride, spec.CColStride
}

// prepareJob returns the worker's job with the addresses of a run.
func (multiplier *Multiplier) prepareJob(mem *graph.Mem) *Job {
	job := multiplier.jobs.Get(mem)
	if !job.isPrepared {
		multiplier.setCallbacks(job)
	}
	if multiplier.epilogue != nil {
		multiplier.epilogue.Bind(&job.epilogue, mem)
	}
	job.mem = mem
	multiplier.Bind(mem, job)
	return job
}

// setCallbacks sets the callbacks of a new job.
func (multiplier *Multiplier) setCallbacks(job *Job) {
	if multiplier.Prepare != nil {
		multiplier.Prepare(job)
	}
	if multiplier.epilogue != nil {
		multiplier.chainEpilogue(job)
	}
	job.Args.Check = func() { job.mem.CheckContext() }
	job.isPrepared = true
}

// chainEpilogue makes a job apply the epilogue to each completed tile, after the callback that is already set. The tile
// has the rows [i0, i1) and the columns [j0, j1) of C.
func (multiplier *Multiplier) chainEpilogue(job *Job) {
	previous := job.Args.Epilogue
	job.Args.Epilogue = func(i0, i1, j0, j1 int) {
		if previous != nil {
			previous(i0, i1, j0, j1)
		}
		entryOffset := int(uintptr(job.Args.C)-uintptr(job.C)) / multiplier.elemBytes
		multiplier.epilogue.Apply(&job.epilogue, entryOffset+i0*multiplier.cRowStride+j0*multiplier.cColStride, i1-i0,
			multiplier.cRowStride, j1-j0, multiplier.cColStride)
	}
}

// setEntry sets the addresses of the matrices of an entry.
func (multiplier *Multiplier) setEntry(job *Job, entry int) {
	job.Args.A = multiplier.entryAt(job.A, multiplier.A, entry)
	job.Args.B = multiplier.entryAt(job.B, multiplier.B, entry)
	job.Args.C = multiplier.entryAt(job.C, multiplier.C, entry)
	job.Args.Bias = multiplier.entryAt(job.Bias, multiplier.Bias, entry)
	job.EntryAdd = multiplier.entryAt(job.Add, multiplier.Add, entry)
}

// entryAt returns the address of a matrix of an entry. base is nil if the operand has no elements or is omitted.
func (multiplier *Multiplier) entryAt(base unsafe.Pointer, offsets []int, entry int) unsafe.Pointer {
	if base == nil || offsets == nil {
		return base
	}
	return unsafe.Add(base, offsets[entry]*multiplier.elemBytes)
}

// release clears all addresses in a job, so that the memory of the run can be freed.
func (j *Job) release() {
	args := &j.Args
	args.A, args.B, args.C, args.Bias, args.Shared = nil, nil, nil, nil, nil
	j.A, j.B, j.C, j.Bias, j.Add, j.EntryAdd, j.mem = nil, nil, nil, nil, nil, nil, nil
	clear(j.Lanes)
	j.replay.Release()
	j.epilogue.Release()
}

// MaxThin is the maximum number of rows of A, or of columns of B, of a thin product. gemm reads the other, larger
// matrix of a thin product in place. Packing the larger matrix would double the memory traffic.
const MaxThin = 4

// RowMove copies Count pixels of an input row, with a stride, to consecutive lanes of a panel.
type RowMove struct {
	Lane  int // first lane
	Count int // number of pixels
	From  int // offset of the first pixel in its channel, in elements
}

// PixelWindow is the window of an output pixel in the input.
type PixelWindow struct {
	Base     unsafe.Pointer // address of the image
	Row, Col int            // row and column of the window's first pixel, which may be in the padding
}
