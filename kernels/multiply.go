package kernels

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/tensor"
)

// multiplier runs one gemm plan on many triples of matrices, its entries, as the phases of
// a kernel. Matrix products of all ranks and convolutions are made of it.
type multiplier[T gemm.Number] struct {
	plan    *gemm.Plan[T]
	entries int
	macs    int // multiplications of one entry

	// a, b, c, bias and add hold each entry's offset, in elements, from the addresses that
	// bind sets; nil where all are 0.
	a, b, c, bias, add []int
	// bind sets a job's base addresses from those of a run.
	bind func(m *graph.Mem, j *productJob[T])
	// prepare sets the callbacks of a new job; nil for none.
	prepare func(j *productJob[T])

	jobs graph.PerWorker[productJob[T]]
}

// productJob is what one chunk needs while it runs. Workers keep theirs from run to run, since
// the callbacks in args are closures over them.
type productJob[T gemm.Number] struct {
	prepared         bool
	args             gemm.Args[T]
	a, b, c          unsafe.Pointer // addresses of entry 0
	bias, add        unsafe.Pointer
	entryAdd         unsafe.Pointer // the addend of the current entry
	lanes            []unsafe.Pointer
	windows          []pixelWindow
	moves            []rowMove
	tapStart, tapPad []int
}

const (
	// wholeMACs bounds the entries that one worker multiplies from packing to the end:
	// their panels stay in its cache, and no barrier parts packing from computing.
	wholeMACs = 32 << 20
	// smallMACs is the entry that is no work for two workers.
	smallMACs = 1 << 20
	// wholeEntries is the number of entries that keeps all workers busy.
	wholeEntries = 16
	// panelBytes bounds the packed panels that entries of one wave hold together.
	panelBytes = 64 << 20
	// maxWaves bounds the phases that the bound on panels may cost.
	maxWaves = 256
)

// phases returns the work as phases, the bytes of shared scratch, which lie from offset at
// on, and the bytes of worker scratch.
func (x *multiplier[T]) phases(at int) (ph []graph.Phase, scratch, worker int) {
	size := int(unsafe.Sizeof(*(*T)(nil)))
	shared, own := alignUp(x.plan.ScratchLen()*size), alignUp(x.plan.WorkerScratchLen()*size)
	if x.entries == 0 || x.plan.Tiles(0) == 0 {
		return nil, 0, 0
	}
	if x.entries > 1 && (x.macs <= smallMACs || x.entries >= wholeEntries && x.macs <= wholeMACs) {
		group := max(1, x.chunkMACs()/max(1, x.macs))
		return []graph.Phase{{
			Chunks: divUp(x.entries, group),
			Run: func(m *graph.Mem, chunk int) error {
				x.runWhole(m, chunk*group, min(x.entries, (chunk+1)*group), own)
				return nil
			},
		}}, 0, own + shared
	}
	wave := x.entries
	if shared > 0 {
		wave = min(wave, max(1, panelBytes/shared, divUp(x.entries, maxWaves)))
	}
	for e := 0; e < x.entries; e += wave {
		for p := range x.plan.Phases() {
			ph = append(ph, x.wave(e, min(wave, x.entries-e), p, at, shared))
		}
	}
	return ph, wave * shared, own
}

// chunkMACs is the work of a chunk of small entries: some tens of microseconds.
func (x *multiplier[T]) chunkMACs() int {
	switch any(*new(T)).(type) {
	case float32, float64:
		return 1 << 20
	}
	return 1 << 16
}

// wave is phase p of n entries from e0 on, each with panels of its own.
func (x *multiplier[T]) wave(e0, n, p, at, shared int) graph.Phase {
	tiles := x.plan.Tiles(p)
	return graph.Phase{
		Chunks: n * tiles,
		Run: func(m *graph.Mem, chunk int) error {
			e := chunk / tiles
			j := x.get(m)
			x.enter(j, e0+e)
			j.args.Shared = sliceOf[T](m.Scratch, at+e*shared, x.plan.ScratchLen())
			x.plan.Run(p, chunk%tiles, &j.args, sliceOf[T](m.Worker, 0, x.plan.WorkerScratchLen()))
			j.release()
			return nil
		},
	}
}

// runWhole runs all phases of entries one after another; panels follow the worker's own
// scratch.
func (x *multiplier[T]) runWhole(m *graph.Mem, e0, e1, own int) {
	j := x.get(m)
	j.args.Shared = sliceOf[T](m.Worker, own, x.plan.ScratchLen())
	worker := sliceOf[T](m.Worker, 0, x.plan.WorkerScratchLen())
	for e := e0; e < e1; e++ {
		x.enter(j, e)
		x.plan.RunAll(&j.args, worker)
	}
	j.release()
}

func (x *multiplier[T]) get(m *graph.Mem) *productJob[T] {
	j := x.jobs.Of(m)
	if x.prepare != nil && !j.prepared {
		x.prepare(j)
	}
	j.prepared = true
	x.bind(m, j)
	return j
}

// release clears the addresses of the run, which would keep its memory alive.
func (j *productJob[T]) release() {
	a := &j.args
	a.A, a.B, a.C, a.Bias, a.Shared = nil, nil, nil, nil, nil
	j.a, j.b, j.c, j.bias, j.add, j.entryAdd = nil, nil, nil, nil, nil, nil
	clear(j.lanes)
}

func (x *multiplier[T]) enter(j *productJob[T], e int) {
	j.args.A, j.args.B = entryAt[T](j.a, x.a, e), entryAt[T](j.b, x.b, e)
	j.args.C, j.args.Bias = entryAt[T](j.c, x.c, e), entryAt[T](j.bias, x.bias, e)
	j.entryAdd = entryAt[T](j.add, x.add, e)
}

// entryAt is the address of an entry's matrix. A nil base belongs to an operand without
// elements, or to none.
func entryAt[T gemm.Number](base unsafe.Pointer, offsets []int, e int) unsafe.Pointer {
	if base == nil || offsets == nil {
		return base
	}
	return elem[T](base, offsets[e])
}

// elem returns the address of element i.
func elem[T any](p unsafe.Pointer, i int) unsafe.Pointer {
	return unsafe.Add(p, i*int(unsafe.Sizeof(*(*T)(nil))))
}

// sliceOf returns n elements of scratch memory from byte at on.
func sliceOf[T any](b []byte, at, n int) []T {
	if n == 0 {
		return nil
	}
	size := int(unsafe.Sizeof(*(*T)(nil)))
	b = b[at : at+n*size]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// alignedSlice allocates n elements at a cache line, for panels packed at compile time.
func alignedSlice[T any](n int) []T {
	return sliceOf[T](tensor.NewStorage(n*int(unsafe.Sizeof(*(*T)(nil)))).Bytes(), 0, n)
}

func divUp(a, b int) int { return (a + b - 1) / b }
