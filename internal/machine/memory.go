// Package machine describes the machine. It has the memory available to the process ([Memory], [Fits]), the features of
// the processor ([HostFeatures], [Features]), and it divides work into chunks ([Division], the grains). Package pricing
// has measured rates of work.
//
// On Linux, memory limits are read from /proc and /sys. They are the limits of the process's control groups and their
// ancestors (version 1 and 2), the limits of its address space and data (ulimit -v and -d), and the free memory of the
// machine. On other systems, only requests that exceed the memory of any machine are rejected.
package machine

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// Limit is a bound on the memory of the process.
type Limit struct {
	Available int    // bytes that the process may still take, at least 0
	Total     int    // the bound, in bytes
	Name      string // its source, as in "the address space of the process (ulimit -v)"
}

// maxRequest bounds a request if there is no other limit. No machine has more memory, and Go's heap can address little
// more.
const maxRequest = min(1<<46, math.MaxInt/2)

// unknownLimit is the limit if no other limit is known.
var unknownLimit = Limit{Available: maxRequest, Total: maxRequest, Name: "what a process can address"}

// Memory returns the tightest current limit.
func Memory() Limit { return currentLimit(false /* isOneBlock */) }

// currentLimit reads the limits and returns the tightest one. If isOneBlock is set, it is a limit for a single
// allocation: see readLimits.
func currentLimit(isOneBlock bool) Limit {
	return tightest(readLimits(os.DirFS("/"), readIdleHeap(), isOneBlock))
}

// tightest returns the limit with the least memory left.
func tightest(limits []Limit) Limit {
	least := unknownLimit
	for _, limit := range limits {
		if limit.Available < least.Available {
			least = limit
		}
	}
	return least
}

// idleHeap describes Go's heap, above all its unused part, in bytes.
type idleHeap struct {
	free     int // backed by memory
	released int // address space only
	used     int // of the used part: live objects, and garbage
}

// readIdleHeap reads the unused part of the heap from Go's runtime.
func readIdleHeap() idleHeap {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	return idleHeap{int(samples[0].Value.Uint64()), int(samples[1].Value.Uint64()), int(samples[2].Value.Uint64())}
}

// largestBlock estimates the longest range of free addresses, because the runtime does not state it: objects divide the
// free addresses. It assumes that large objects do so, with as much free memory between them as they take, but that
// half of the free memory is in one range.
func (h idleHeap) largestBlock() int {
	unused := h.free + h.released
	return max(unused-h.used, unused/2)
}

// heapArenaBytes is the size of the pieces in which Go reserves address space (heapArenaBytes of package runtime).
const heapArenaBytes = 64 << 20

// readLimits returns all limits that the files state. An unreadable file states no limit. If isOneBlock is set, the
// limit of the address space applies to a single allocation.
func readLimits(fsys fs.FS, heap idleHeap, isOneBlock bool) []Limit {
	info := readMeminfo(fsys)
	limits := groupLimits(fsys, info) // of the control groups
	if total := info["MemTotal"]; total > 0 {
		limits = append(limits, Limit{Available: info.available() + info["SwapFree"], Total: total + info["SwapTotal"],
			Name: "the memory of this machine"})
	}
	for i := range limits {
		// A 64th of the memory is reserved for page tables and the collector's metadata. Free memory of the heap is
		// reused, so it counts as left.
		limits[i].Available += heap.free - limits[i].Available/64
	}
	for _, limit := range processLimits(fsys) { // of the address space and of data
		limit.Available -= 2 * heapArenaBytes // a reserve
		if isOneBlock {
			// A block needs adjacent addresses: either new addresses or free addresses.
			limit.Available = max(limit.Available, heap.largestBlock())
		} else {
			limit.Available += heap.free + heap.released
		}
		limits = append(limits, limit)
	}
	for i := range limits {
		limits[i].Available = max(limits[i].Available, 0)
	}
	return limits
}

// reading is a reading of the limits.
type reading struct {
	bytesLeft atomic.Int64 // memory in bytes that was left at the time of the reading, minus later requests
	time      time.Time    // time of the reading
}

// lastReading is the latest reading, or nil.
var lastReading atomic.Pointer[reading]

// Fits reports whether the process may take the given number of additional bytes. If not, it returns the limit that is
// exceeded. It collects garbage before it rejects a request. A small request soon after the last reading of the limits
// is accepted without another reading. The returned limit is then zero.
func Fits(bytes int) (Limit, bool) { return fits(bytes, false /* isOneBlock */) }

// FitsBlock is [Fits] for a single allocation.
func FitsBlock(bytes int) (Limit, bool) { return fits(bytes, true /* isOneBlock */) }

// FitsEasily reports whether [Fits] and [FitsBlock] would accept a request without a reading of the limits.
func FitsEasily(bytes int) bool {
	// A request for less than an eighth of the memory that was left within the last quarter of a second needs no reading.
	last := lastReading.Load()
	if last == nil || int64(bytes) >= last.bytesLeft.Load()/8 || time.Since(last.time) >= time.Second/4 {
		return false
	}
	last.bytesLeft.Add(-int64(bytes))
	return true
}

// fits is Fits or, if isOneBlock is set, FitsBlock.
func fits(bytes int, isOneBlock bool) (Limit, bool) {
	if FitsEasily(bytes) {
		return Limit{}, true
	}
	limit := currentLimit(isOneBlock)
	if bytes > limit.Available && bytes <= maxRequest {
		runtime.GC()
		debug.FreeOSMemory()
		limit = currentLimit(isOneBlock)
	}
	latest := &reading{time: time.Now()}
	latest.bytesLeft.Store(int64(limit.Available - min(bytes, limit.Available)))
	lastReading.Store(latest)
	return limit, bytes <= limit.Available
}

// String describes the limit and the memory left.
func (l Limit) String() string {
	return fmt.Sprintf("%s is %s, of which %s is left", l.Name, Bytes(l.Total), Bytes(l.Available))
}

// Nanoseconds formats a time with four significant digits: "812.3µs". It is not inlined, because many places call it
// and no inner loop does.
//
//go:noinline
func Nanoseconds(ns float64) string { return NanosecondsTo(ns, 4) }

// NanosecondsTo formats a time in nanoseconds with a number of significant digits.
func NanosecondsTo(ns float64, digits int) string {
	value, unit := ns, 0
	for ; value >= 1000 && unit < 3; unit++ {
		value /= 1000
	}
	return fmt.Sprintf("%.*g%s", digits, value, [...]string{"ns", "µs", "ms", "s"}[unit])
}

// Bytes formats a number of bytes in the largest binary unit in which it is at least 1.
func Bytes(n int) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	}
	value, unit := float64(n)/(1<<10), 0
	for ; value >= 1<<10 && unit < 5; unit++ {
		value /= 1 << 10
	}
	return fmt.Sprintf("%.4g %s", value, [...]string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}[unit])
}
