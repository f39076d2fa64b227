package machine

// Access is a way to touch bytes of memory.
type Access uint8

const (
	// Dense: one after another, read or written while something is done to them.
	Dense Access = iota
	// Kept: one after another, of constants, which other steps have driven out of the near caches since the last
	// run.
	Kept
	// Panels: constants that products in register tiles read panel by panel: they wait for the first tile of each,
	// since the processor does not read that far ahead.
	Panels
	// Copied: one after another, by what only copies: runs of some length at least.
	Copied
	// Tiled: turned, so that what is read in order is written with steps, tile by tile.
	Tiled
	// Strided: with steps, a part of every line of the cache.
	Strided
	// Gathered: anywhere.
	Gathered
	accesses
)

// String names the access as profiles do.
func (a Access) String() string {
	return [...]string{"dense", "kept", "panels", "copied", "tiled", "strided", "gathered", "?"}[min(a, accesses)]
}

// MaxParts is how many inner kernels one [Work] can name.
const MaxParts = 12

// Part is what an inner kernel has to do: so many of the units in which its rate is.
type Part struct {
	Kernel string
	Units  float64
	// Waits: memory is not gone through meanwhile.
	Waits bool
}

// Work is what there is to do, in terms that a profile of a machine prices: bytes by access, what inner kernels do,
// and steps that have to be begun.
type Work struct {
	// Bytes may be negative in the work of reading an operand: what is read otherwise is not read densely.
	Bytes [accesses]float64
	// Parts are added by Do. Those without a kernel count nothing.
	Parts [MaxParts]Part
	Steps float64
	// Footprint is the bytes of all that the step touches, from which follows in which cache they are.
	Footprint float64
	// Flops are the operations that are computed, a function such as exp as one. They cost nothing: they are for
	// who wants to know how fast that is.
	Flops float64
}

// Do adds units of an inner kernel. Work that names more than [MaxParts] kernels panics.
func (w *Work) Do(kernel string, units float64) { w.add(Part{kernel, units, false}) }

// Wait is Do for what is done before memory is gone through, or between: to begin a loop, or a run of one.
func (w *Work) Wait(kernel string, units float64) { w.add(Part{kernel, units, true}) }

func (w *Work) add(x Part) {
	for i := range w.Parts {
		p := &w.Parts[i]
		if p.Kernel == "" || p.Kernel == x.Kernel {
			p.Kernel, p.Waits = x.Kernel, x.Waits
			p.Units += x.Units
			return
		}
	}
	panic("machine: a work of more inner kernels than there is room for")
}

// Plus returns both works, one after the other. Their price may be less than the sum of theirs: memory is read
// while the core computes.
func (w Work) Plus(v Work) Work {
	for i := range w.Bytes {
		w.Bytes[i] += v.Bytes[i]
	}
	for _, p := range v.Parts {
		if p.Kernel != "" {
			w.add(p)
		}
	}
	w.Steps += v.Steps
	w.Flops += v.Flops
	w.Footprint = max(w.Footprint, v.Footprint)
	return w
}

// Moved is the sum of all bytes.
func (w *Work) Moved() (bytes float64) {
	for _, b := range w.Bytes {
		bytes += b
	}
	return bytes
}

// Less returns the work without the other: of what is done otherwise, parts are negative.
func (w Work) Less(v Work) Work {
	for i := range v.Bytes {
		w.Bytes[i] -= v.Bytes[i]
	}
	for _, p := range v.Parts {
		if p.Kernel != "" {
			w.add(Part{p.Kernel, -p.Units, p.Waits})
		}
	}
	w.Steps -= v.Steps
	w.Flops -= v.Flops
	return w
}
