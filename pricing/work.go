package pricing

import "fmt"

// Access is a pattern of memory access.
type Access uint8

const (
	// Dense is sequential access to operands and results, while something is computed.
	Dense Access = iota
	// DenseConstants is sequential access to constants. Other steps have evicted these constants from the private
	// caches since the last run.
	DenseConstants
	// Panels is access to packed constants of products. A panel is the block of columns that a product reads at a time.
	// The first tile of each panel waits for memory, because hardware prefetching does not reach the next panel.
	Panels
	// Copied is access by copies whose reads and writes both proceed in sequential runs, for example whole rows.
	Copied
	// Tiled is transposed access, read in order and written with strides, tile by tile.
	Tiled
	// Strided is access with strides, to a part of every cache line.
	Strided
	// Gathered is random access.
	Gathered
	numAccesses
)

// String returns the name in profiles, in which DenseConstants are called kept.
func (a Access) String() string {
	return [...]string{"dense", "kept", "panels", "copied", "tiled", "strided", "gathered", "?"}[min(a, numAccesses)]
}

// MaxParts bounds the number of inner kernels of one [Work].
const MaxParts = 12

// Part is the work of one inner kernel, counted in units such as multiply-adds. The rate of the kernel in a profile is
// the time of one unit.
type Part struct {
	Kernel string // name of the kernel in profiles
	Units  float64
	// Unoverlapped means that the work does not overlap with memory access.
	Unoverlapped bool
}

// Work is an amount of work in the terms of a profile: bytes by access, units of inner kernels, and started
// steps. The price of a Work is its predicted time with the rates of a profile.
type Work struct {
	// Bytes counts bytes by access. In a difference of two Work values a count may be negative.
	Bytes [numAccesses]float64
	// Parts are added by AddUnits and AddUnoverlapped. Unused parts have no kernel.
	Parts        [MaxParts]Part
	StartedSteps float64 // number of steps, which each take time to start
	// Footprint is the number of bytes that the step touches. It determines the cache that holds these bytes.
	Footprint float64
	// Flops counts arithmetic operations. A function such as exp counts as one operation. Flops is for display and has
	// no price.
	Flops float64
}

// AddUnits adds work of an inner kernel that overlaps with memory access. It panics beyond [MaxParts] kernels. It is
// not inlined: many places call it, so inlining would increase the code size, and no inner loop calls it.
//
//go:noinline
func (w *Work) AddUnits(kernel string, units float64) { w.add(Part{Kernel: kernel, Units: units}) }

// AddUnoverlapped is AddUnits for work that does not overlap with memory access, such as starting a loop.
//
//go:noinline
func (w *Work) AddUnoverlapped(kernel string, units float64) {
	w.add(Part{Kernel: kernel, Units: units, Unoverlapped: true})
}

// add adds units to the part of the same kernel, or to an unused part. All units of a kernel have the same
// Unoverlapped.
func (w *Work) add(part Part) {
	for i := range w.Parts {
		entry := &w.Parts[i]
		if entry.Kernel == "" || entry.Kernel == part.Kernel {
			entry.Kernel, entry.Unoverlapped = part.Kernel, part.Unoverlapped
			entry.Units += part.Units
			return
		}
	}
	panic(fmt.Sprintf("machine: a Work has more than %d inner kernels", MaxParts))
}

// Plus returns the sum w + other. Its price may be less than the sum of the two prices, because memory access overlaps
// with computation.
func (w Work) Plus(other Work) Work {
	for i := range w.Bytes {
		w.Bytes[i] += other.Bytes[i]
	}
	for _, part := range other.Parts {
		if part.Kernel != "" {
			w.add(part)
		}
	}
	w.StartedSteps += other.StartedSteps
	w.Flops += other.Flops
	w.Footprint = max(w.Footprint, other.Footprint)
	return w
}

// Minus returns the difference w - other, with the footprint of w. Its parts may be negative.
func (w Work) Minus(other Work) Work {
	for i := range other.Bytes {
		w.Bytes[i] -= other.Bytes[i]
	}
	for _, part := range other.Parts {
		if part.Kernel != "" {
			w.add(Part{part.Kernel, -part.Units, part.Unoverlapped})
		}
	}
	w.StartedSteps -= other.StartedSteps
	w.Flops -= other.Flops
	return w
}

// TotalBytes returns the sum of all bytes.
func (w *Work) TotalBytes() (bytes float64) {
	for _, b := range w.Bytes {
		bytes += b
	}
	return bytes
}
