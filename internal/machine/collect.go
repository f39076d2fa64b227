package machine

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
	"unsafe"
)

// Go's collector runs when the heap has doubled. The weights of a model are most of the heap, so that the results of
// hundreds of runs pile up before the first of them is collected: the process takes twice the memory of the weights,
// and each run writes memory that the system has to map first. Programs therefore collect as if weights were outside of
// the heap: [Hold] counts them, and [CollectIfDue] collects when the rest of the heap has grown by GOGC percent.

// Bounds on the collections by [CollectIfDue].
const (
	minHeldBlock    = 64 << 10             // smaller blocks are not counted
	minHeld         = 32 << 20             // bytes of weights below which Go's own collections are enough
	minGarbage      = 32 << 20             // bytes that are worth a collection, which takes some milliseconds
	collectInterval = 2 * time.Millisecond // minimum time between two readings of the size of the heap
)

var (
	heldBytes    atomic.Int64
	lastDueCheck atomic.Int64 // nanoseconds after startTime
	isCollecting atomic.Bool
	startTime    = time.Now()
)

// Hold states that a block of the heap has weights, which live as long as a program. They are counted until they are
// garbage.
func Hold(block []byte) {
	if len(block) < minHeldBlock {
		return
	}
	size := int64(len(block))
	heldBytes.Add(size)
	runtime.AddCleanup(unsafe.SliceData(block), func(size int64) { heldBytes.Add(-size) }, size)
}

// CollectIfDue starts a collection in the background if there are weights, and the rest of the heap has grown by GOGC
// percent and by [minGarbage] bytes since the last one. It does nothing if GOGC is off. It is called after runs, and
// takes some nanoseconds in all but one call in [collectInterval].
func CollectIfDue() {
	held := heldBytes.Load()
	if held < minHeld {
		return
	}
	now, last := int64(time.Since(startTime)), lastDueCheck.Load()
	if now-last < int64(collectInterval) || !lastDueCheck.CompareAndSwap(last, now) {
		return
	}
	if isCollectionDue(held, readHeap()) && isCollecting.CompareAndSwap(false, true) {
		go func() {
			defer isCollecting.Store(false)
			runtime.GC()
		}()
	}
}

// heap describes Go's heap.
type heap struct {
	live    int64  // bytes that the last collection found reachable
	objects int64  // bytes of all objects: reachable ones, and garbage
	percent uint64 // GOGC; math.MaxUint64 if it is off
}

// readHeap reads the description of the heap.
func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/gogc:percent"}}
	metrics.Read(samples)
	return heap{int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64()), samples[2].Value.Uint64()}
}

// isCollectionDue reports whether to collect a heap with the given bytes of weights.
func isCollectionDue(held int64, h heap) bool {
	if h.percent == math.MaxUint64 {
		return false
	}
	growth := float64(h.live-held) / 100 * float64(h.percent)
	return float64(h.objects-h.live) > max(growth, minGarbage)
}
