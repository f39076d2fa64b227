// Package pricing predicts how long work takes. A [Profile] holds the rates of a machine, such as picoseconds for each
// byte and multiply-add. [Work] counts what an implementation does in these units, and [Profile.PricePS] is the price.
// Profiles of four instruction sets are shipped; graphrun calibrate measures that of a machine.
package pricing

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
)

// ProfileVersion is the version of the set of rates in a profile. Profiles of other versions are rejected.
const ProfileVersion = 2

// Profile holds the rates of one core of a machine. A rate is the time of one unit of work, such as a byte or a
// multiply-add. The price of a [Work] is the time that the rates predict for it ([Profile.PricePS]). All cost decisions
// compare prices.
//
// Prices select among implementations, which may round differently. Within one implementation no number of a profile
// may affect the bits of a result. Parameters that affect bits, such as the cuts of reductions and the depth of a
// product's blocks, depend only on shapes.
type Profile struct {
	Version int `json:"version" doc:"The version of the set of rates; profiles of other versions are rejected."`
	// CPU and Instructions identify the measured machine. Measured is the time of the measurement (RFC 3339); it is
	// empty for a shipped default.
	CPU          string `json:"cpu" doc:"The measured processor; of a default, the kind of processor."`
	Instructions string `json:"instructions" doc:"The instruction set in use: avx512, avx2, arm64 or portable."`
	Measured     string `json:"measured,omitzero" doc:"The time of the measurement (RFC 3339); omitted in a default."`
	Estimated    bool   `json:"estimated,omitzero" doc:"Whether the prices are estimates, not measurements."`
	// StepPS is the cost of starting a step, in picoseconds.
	StepPS float64 `json:"step_ps" doc:"The cost of starting a step, in picoseconds."`
	// Memory holds the rate of a byte. It depends on the access pattern and on the number of bytes that the step
	// touches.
	Memory Rates `json:"memory" doc:"The cost of a byte, by access pattern."`
	// Kernels holds the rates of inner kernels, in picoseconds per unit of work.
	Kernels map[string]float64 `json:"kernels" doc:"The cost of a unit of work of inner kernels, in picoseconds."`
	// Devices holds the rates of devices by the names of their drivers.
	Devices map[string]DeviceRates `json:"devices,omitzero" doc:"The prices of devices, by driver; omitted if none is measured."`
	// ChunkNS is the cost of handing a chunk of a step to a worker.
	ChunkNS float64 `json:"chunk_ns,omitzero" doc:"The cost of handing a chunk to a worker, in nanoseconds; left out or 0: 425."`
	// ShareNS is the minimum work, in nanoseconds, that is handed to an awake worker. WakeNS is the minimum saved time
	// for which workers are woken. 0 stands for the default.
	ShareNS float64 `json:"share_ns,omitzero" doc:"The least work worth handing to an awake worker, in nanoseconds; left out or 0: 5000."`
	WakeNS  float64 `json:"wake_ns,omitzero" doc:"The least saved time worth waking workers, in nanoseconds; left out or 0: 50000."`

	// Prices are sorted by label: see [Profile.WithPrices].
	Prices []LabelPrice `json:"prices,omitempty" doc:"Measured prices of single nodes; left out if there are none."`

	medians *medianRatios // of Prices; nil if the profile was not made by WithPrices

	// constantBytes is the number of bytes of constants that the steps of a run read in total. It is a property of a
	// graph, not of the machine: see WithConstants.
	constantBytes float64
}

// Rates holds the rate of a byte by access pattern.
type Rates struct {
	Dense          Curve `json:"dense" doc:"Sequential access to operands and results."`
	DenseConstants Curve `json:"kept" doc:"Sequential access to constants; the bytes of a level are then the size of all constants of the graph, not of the operands of the step."`
	Panels         Curve `json:"panels" doc:"Access to constants that products read in panels; the bytes of a level are the size of all constants, as for kept."`
	Copied         Curve `json:"copied" doc:"Sequential access by copies."`
	Tiled          Curve `json:"tiled" doc:"Transposed access, tile by tile, to elements of 4 bytes."`
	Strided        Curve `json:"strided" doc:"Access with strides."`
	Gathered       Curve `json:"gathered" doc:"Random access."`
}

// curve returns the curve of an access.
func (m *Rates) curve(a Access) *Curve {
	return [...]*Curve{&m.Dense, &m.DenseConstants, &m.Panels, &m.Copied, &m.Tiled, &m.Strided, &m.Gathered}[a]
}

// CurveOf returns the curve of an access, or nil for an invalid access.
func (m *Rates) CurveOf(access Access) *Curve {
	if m == nil || access >= numAccesses {
		return nil
	}
	return m.curve(access)
}

// Curve is the rate of a byte as a function of the number of bytes that a step touches. Levels are in ascending order
// of that number.
type Curve []Level

// Level is a point of a [Curve].
type Level struct {
	Bytes float64 `json:"bytes" doc:"The bytes that a step touches."`
	PS    float64 `json:"ps" doc:"The cost of a byte, in picoseconds."`
}

// At returns the rate in picoseconds per byte for a step that touches the given number of bytes. It interpolates
// linearly in the logarithm of that number. The rate is constant beyond the ends of the curve.
func (c Curve) At(bytes float64) float64 {
	switch {
	case len(c) == 0:
		return 0
	case bytes <= c[0].Bytes:
		return c[0].PS
	}
	for i := 1; i < len(c); i++ {
		if lower, upper := c[i-1], c[i]; bytes <= upper.Bytes {
			return lower.PS + (upper.PS-lower.PS)*math.Log(bytes/lower.Bytes)/math.Log(upper.Bytes/lower.Bytes)
		}
	}
	return c[len(c)-1].PS
}

// Defaults of Profile.ChunkNS, ShareNS and WakeNS in nanoseconds, measured on a Zen 5 desktop.
const (
	DefaultChunkNS = 425
	DefaultShareNS = 5e3
	DefaultWakeNS  = 5e4
)

// SharedDefaultProfile returns the shipped profile for the instruction set in use: the rates for a machine that was
// not measured. It is shared and must not be changed.
func SharedDefaultProfile() *Profile { return shippedProfiles[machine.HostFeatures().Name()]() }

// shippedProfiles are the shipped profiles by the names of sets of instructions.
var shippedProfiles = map[string]func() *Profile{
	"portable": sync.OnceValue(func() *Profile { return shippedProfile("portable") }),
	"avx2":     sync.OnceValue(func() *Profile { return shippedProfile("avx2") }),
	"avx512":   sync.OnceValue(func() *Profile { return shippedProfile("avx512") }),
	"arm64":    sync.OnceValue(func() *Profile { return shippedProfile("arm64") }),
}

// ShippedProfiles lists the names of the shipped profiles.
func ShippedProfiles() []string { return sorted.Keys(shippedProfiles) }

// ShippedProfile returns a copy of the shipped profile with a name, or nil if there is none. The caller owns the copy.
func ShippedProfile(name string) *Profile {
	if shipped := shippedProfiles[name]; shipped != nil {
		return shipped().clone()
	}
	return nil
}

// DefaultProfile returns a copy of the result of [SharedDefaultProfile]. The caller owns the copy.
func DefaultProfile() *Profile { return SharedDefaultProfile().clone() }

// ScaleCopies returns a copy of the profile with the rates of copies multiplied by a factor. These are the rates of
// copied and tiled bytes, and of the inner kernels of copies. The factor also applies to loops that read a transposed
// operand, because their bytes count as tiled. The cost of a step is unchanged.
func (p *Profile) ScaleCopies(factor float64) *Profile {
	p = p.clone()
	for _, curve := range []Curve{p.Memory.Copied, p.Memory.Tiled} {
		for i := range curve {
			curve[i].PS *= factor
		}
	}
	for name := range p.Kernels {
		if strings.HasPrefix(name, "copy.") {
			p.Kernels[name] *= factor
		}
	}
	return p
}

// clone returns a copy that shares no maps and curves with p.
func (p *Profile) clone() *Profile {
	copied := *p
	copied.Kernels, copied.Devices = maps.Clone(p.Kernels), maps.Clone(p.Devices)
	copied.Prices = slices.Clone(p.Prices)
	for access := range numAccesses {
		curve := copied.Memory.curve(access)
		*curve = slices.Clone(*curve)
	}
	return &copied
}

// WithConstants returns the profile for a run whose steps together read the given number of bytes of constants. This
// number determines the cache from which a step reads its constants.
func (p *Profile) WithConstants(bytes float64) *Profile {
	changed := *p
	changed.constantBytes = bytes
	return &changed
}

// ConstantBytes returns the bytes of constants that a run reads. It is 0 for a profile without a graph.
func (p *Profile) ConstantBytes() float64 { return p.constantBytes }

// PricePS returns the price of work in picoseconds, rounded, between 0 and an hour. Sequential memory access overlaps
// with computation, so only the longer of these two times counts. Other memory accesses stall the core, so their times
// are added.
func (p *Profile) PricePS(w Work) int64 {
	total := p.price(&w)
	if !(total > 0) { // NaN of an unchecked profile
		return 0
	}
	return int64(math.Round(min(total, maxPS)))
}

// PriceNS is [Profile.PricePS] in nanoseconds, without rounding.
func (p *Profile) PriceNS(w Work) float64 {
	total := p.price(&w)
	if !(total > 0) {
		return 0
	}
	return min(total, maxPS) / PSPerNS
}

// UnclampedPS returns the price of work in picoseconds, without the bounds 0 and maxPS of [Profile.PricePS]. The price
// is negative if w is a difference of two Work values and saves time.
func (p *Profile) UnclampedPS(w Work) float64 { return p.price(&w) }

// PSPerNS converts between picoseconds, the unit of prices, and nanoseconds.
const PSPerNS = 1000

// maxPS bounds a price by an hour, so that sums of a thousand such steps do not overflow.
const maxPS = 3600e12

// price returns the price of work in picoseconds; see PricePS. Conversions to float64 prevent fused multiply-adds, so
// that all architectures give the same price.
func (p *Profile) price(w *Work) float64 {
	total := w.StartedSteps * p.StepPS
	for access := DenseConstants; access < numAccesses; access++ {
		touched := w.Footprint
		if access <= Panels { // constants: they are in a cache that holds all constants of a run
			touched = max(w.Footprint, p.constantBytes)
		}
		if w.Bytes[access] != 0 {
			total += float64(w.Bytes[access] * p.Memory.curve(access).At(touched))
		}
	}
	memory, compute := 0.0, 0.0
	if bytes := w.Bytes[Dense]; bytes != 0 {
		memory = bytes * p.Memory.Dense.At(w.Footprint)
	}
	for i := range w.Parts {
		if w.Parts[i].Kernel == "" {
			break
		}
		if cost := float64(w.Parts[i].Units * p.Kernels[w.Parts[i].Kernel]); w.Parts[i].Unoverlapped {
			total += cost
		} else {
			compute += cost
		}
	}
	if memory < 0 { // w is a difference that saves accesses
		return total + memory + compute
	}
	return total + max(memory, compute)
}

// GBs returns the memory bandwidth of a core beyond all caches, in GB/s.
func (p *Profile) GBs() float64 { return PSPerNS / p.Memory.Dense.At(math.Inf(1)) }

// GFLOPs returns the peak performance of a core, in GFLOP/s. A multiply-add counts as two operations.
func (p *Profile) GFLOPs() float64 { return 2 * PSPerNS / p.Kernels[peakKernel] }

// peakKernel is the inner kernel with the highest throughput; its unit is a multiply-add.
const peakKernel = "gemm.f32"
