package machine

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestIsCollectionDue(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		held int64
		heap heap
		want bool
	}{
		{300 * mib, heap{320 * mib, 340 * mib, 100}, false},            // too little to collect
		{300 * mib, heap{320 * mib, 360 * mib, 100}, true},             // the rest, 20 MiB, has more than doubled
		{300 * mib, heap{400 * mib, 480 * mib, 100}, false},            // the rest, 100 MiB, has not doubled yet
		{300 * mib, heap{400 * mib, 480 * mib, 50}, true},              // but it has grown by half
		{300 * mib, heap{320 * mib, 640 * mib, math.MaxUint64}, false}, // GOGC=off
		{300 * mib, heap{200 * mib, 240 * mib, 100}, true},             // weights that are garbage still count
		{300 * mib, heap{10300 * mib, 12300 * mib, 100}, false},        // the caller has a large heap
		{300 * mib, heap{10300 * mib, 20400 * mib, 100}, true},         // which has doubled
		{300 * mib, heap{320 * mib, 310 * mib, 100}, false},            // after a collection
	} {
		require.Equal(t, c.want, isCollectionDue(c.held, c.heap), "%+v", c)
	}
}

// TestHeldBytesAreCountedWhileTheyLive also holds a block by a pointer into its middle, as aligned storage does.
func TestHeldBytesAreCountedWhileTheyLive(t *testing.T) {
	before := heldBytes.Load()
	block := make([]byte, 1<<20)[64:]
	Hold(block)
	Hold(make([]byte, 100)) // too small to count
	require.Equal(t, before+int64(len(block)), heldBytes.Load())
	runtime.KeepAlive(block)
	require.Eventually(t, func() bool {
		runtime.GC()
		return heldBytes.Load() == before
	}, 10*time.Second, time.Millisecond)
}

// TestCollectIfDue makes garbage beside weights until a collection starts, long before the heap has doubled.
func TestCollectIfDue(t *testing.T) {
	weights := make([]byte, 256<<20)
	Hold(weights)
	runtime.GC()
	before := readHeap()
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumGC
	}
	at := collections()
	for made := 0; made < 1<<28; made += 1 << 20 {
		garbage = make([]byte, 1<<20)
		lastDueCheck.Store(math.MinInt64 / 2)
		CollectIfDue()
		for isCollecting.Load() {
			runtime.Gosched()
		}
		if collections() > at {
			require.Less(t, int64(made), (before.live-256<<20)+2*minGarbage)
			return
		}
	}
	runtime.KeepAlive(weights)
	t.Fatal("no collection")
}

var garbage []byte
