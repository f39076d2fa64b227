package machine

import (
	"maps"
	"math"
	"slices"
	"sync"
)

// ProfileVersion is that of the terms in which profiles are: one of another version says nothing of this program's
// kernels.
const ProfileVersion = 2

// Profile is what a machine was measured to do, on one core: the prices of work. Everything that weighs one way to
// compute against another reads it.
//
// Prices choose among implementations, which may round differently; within one no number of a profile
// may decide bits of a result. What does, such as the cuts of reductions and the depth of a product's
// blocks, is a constant where it is, and goes by shape alone.
type Profile struct {
	Version int `json:"version" doc:"The version of the terms: those of another are not read."`
	// CPU and Instructions tell which machine was measured; Measured when, in RFC 3339, empty for a shipped
	// default.
	CPU          string `json:"cpu" doc:"The processor that was measured; of a default, the kind of processor."`
	Instructions string `json:"instructions" doc:"The instruction set in use: avx512, avx2 or portable."`
	Measured     string `json:"measured,omitzero" doc:"When it was measured (RFC 3339); left out of a default."`
	// StepPS is what it takes to begin a step, in picoseconds.
	StepPS float64 `json:"step_ps" doc:"What it takes to begin a step, in picoseconds."`
	// Memory holds what bytes take by access and by the size of what a step touches.
	Memory Rates `json:"memory" doc:"What bytes take, by the kind of access."`
	// Kernels holds what inner kernels take for a unit of their work, in picoseconds.
	Kernels map[string]float64 `json:"kernels" doc:"What inner kernels take for a unit of their work, in picoseconds."`
	// ChunkNS is what it takes to hand a chunk of a step to a worker.
	ChunkNS float64 `json:"chunk_ns,omitzero" doc:"What it takes to hand a chunk to a worker; 0: as usual."`
	// ShareNS is the work that is worth handing to a worker that is awake, WakeNS the time that must be saved for
	// it to be worth waking some; 0 stands for what is usual.
	ShareNS float64 `json:"share_ns,omitzero" doc:"The work that is worth handing to a worker that is awake; 0: as usual."`
	WakeNS  float64 `json:"wake_ns,omitzero" doc:"The time that must be saved for waking workers; 0: as usual."`

	// kept is the bytes of the constants that all steps of a run go over: those of a graph, and no part of what was
	// measured.
	kept float64
}

// Rates are what bytes take by the kind of access.
type Rates struct {
	Dense    Curve `json:"dense" doc:"One after another, of operands and results."`
	Kept     Curve `json:"kept" doc:"One after another, of constants; by the size of all constants."`
	Panels   Curve `json:"panels" doc:"Constants that products read in panels; by the size of all constants."`
	Copied   Curve `json:"copied" doc:"One after another, by what only copies."`
	Tiled    Curve `json:"tiled" doc:"Turned: read in order and written with steps, by tiles, elements of 4 bytes."`
	Strided  Curve `json:"strided" doc:"With steps."`
	Gathered Curve `json:"gathered" doc:"Anywhere."`
}

// of returns the curve of an access.
func (m *Rates) of(a Access) *Curve {
	return [...]*Curve{&m.Dense, &m.Kept, &m.Panels, &m.Copied, &m.Tiled, &m.Strided, &m.Gathered}[a]
}

// Of returns the curve of an access; nil of one that there is not.
func (m *Rates) Of(a Access) *Curve {
	if m == nil || a >= accesses {
		return nil
	}
	return m.of(a)
}

// Curve is what a byte takes by what a step touches in all, the least first.
type Curve []Level

// Level is a point of a [Curve].
type Level struct {
	Bytes float64 `json:"bytes" doc:"The bytes that a step touches."`
	PS    float64 `json:"ps" doc:"What each of them takes then, in picoseconds."`
}

// At returns what a byte takes where a step touches so many: between two points in proportion to the logarithm.
func (c Curve) At(bytes float64) float64 {
	switch {
	case len(c) == 0:
		return 0
	case bytes <= c[0].Bytes:
		return c[0].PS
	}
	for i := 1; i < len(c); i++ {
		if a, b := c[i-1], c[i]; bytes <= b.Bytes {
			return a.PS + (b.PS-a.PS)*math.Log(bytes/a.Bytes)/math.Log(b.Bytes/a.Bytes)
		}
	}
	return c[len(c)-1].PS
}

// What no profile says: the caches that most cores have, L1 for data and L2, and the bytes of a result that is
// better written past the caches, since beside what it is made of it would not stay in the last of them.
const (
	L1Bytes  = 32 << 10
	L2Bytes  = 1 << 20
	FarBytes = 16 << 20
)

// What handing out work takes, and when it is worth it, where a profile says nothing: measured on a Zen 5 desktop.
const (
	UsualChunkNS = 425
	UsualShareNS = 5e3
	UsualWakeNS  = 5e4
)

// UsualProfile is that of a usual machine with the instruction set in use: what prices work where nobody measured.
// It is shared by all who ask, and must not be changed.
func UsualProfile() *Profile { return shippedProfiles[min(Instructions(), AVX512)]() }

// DefaultProfile is a copy of [UsualProfile], which is the caller's.
func DefaultProfile() *Profile {
	p := *UsualProfile()
	p.Kernels = maps.Clone(p.Kernels)
	for a := range accesses {
		c := p.Memory.of(a)
		*c = slices.Clone(*c)
	}
	return &p
}

var shippedProfiles = [...]func() *Profile{
	Portable: sync.OnceValue(func() *Profile { return mustShip(Portable) }),
	AVX2:     sync.OnceValue(func() *Profile { return mustShip(AVX2) }),
	AVX512:   sync.OnceValue(func() *Profile { return mustShip(AVX512) }),
}

// Keeping returns the profile for a run that goes over so many bytes of constants in all, from which follows in which
// cache a step finds its own.
func (p *Profile) Keeping(bytes float64) *Profile {
	r := *p
	r.kept = bytes
	return &r
}

// Kept is the bytes of constants that a run goes over: 0 of a profile that is for no graph.
func (p *Profile) Kept() float64 { return p.kept }

// PS prices work in picoseconds, rounded; 0 at least. Memory that is gone through in order is read
// while the core computes, so that only what takes longer counts; other accesses it waits for. What takes longer
// than an hour is as long as that.
func (p *Profile) PS(w Work) int64 {
	ps := p.price(&w)
	if !(ps > 0) { // NaN of a profile that was not checked
		return 0
	}
	return int64(math.Round(min(ps, maxPS)))
}

// NS is [Profile.PS] in nanoseconds, not rounded.
func (p *Profile) NS(w Work) float64 {
	ps := p.price(&w)
	if !(ps > 0) {
		return 0
	}
	return min(ps, maxPS) / 1e3
}

// Sum prices work in picoseconds, as it is: less than 0 where less is done than otherwise.
func (p *Profile) Sum(w Work) float64 { return p.price(&w) }

// maxPS bounds a price: an hour, so that sums of a thousand such steps, and of a million shorter ones, fit.
const maxPS = 3600e12

func (p *Profile) price(w *Work) float64 {
	ps := w.Steps * p.StepPS
	for a := Kept; a < accesses; a++ {
		touched := w.Footprint
		if a <= Panels {
			touched = max(w.Footprint, p.kept)
		}
		if w.Bytes[a] != 0 {
			ps += w.Bytes[a] * p.Memory.of(a).At(touched)
		}
	}
	memory, compute := 0.0, 0.0
	if b := w.Bytes[Dense]; b != 0 {
		memory = b * p.Memory.Dense.At(w.Footprint)
	}
	for i := range w.Parts {
		if w.Parts[i].Kernel == "" {
			break
		}
		if cost := w.Parts[i].Units * p.Kernels[w.Parts[i].Kernel]; w.Parts[i].Waits {
			ps += cost
		} else {
			compute += cost
		}
	}
	if memory < 0 {
		return ps + memory + compute
	}
	return ps + max(memory, compute)
}

// peakKernel is the inner kernel that computes most in a nanosecond: a multiplication and an addition are a unit of
// it.
const peakKernel = "gemm.f32"

// GBs is what a core reads and writes of memory, in GB/s: of what no cache holds.
func (p *Profile) GBs() float64 { return 1e3 / p.Memory.Dense.At(math.Inf(1)) }

// GFLOPs is what a core computes at most, in GFLOP/s.
func (p *Profile) GFLOPs() float64 { return 2e3 / p.Kernels[peakKernel] }
