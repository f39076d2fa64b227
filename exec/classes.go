package exec

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/lru"
	"github.com/graphrun/graphrun/tensor"
)

// A graph with data-dependent shapes runs in segments. This file caches compiled segments (parts of the graph: see
// segments.go). A segment is compiled once for each class of input values; the values of a class give the same
// shapes.

// preparedSegment is a segment prepared for one class. Exactly one of program, call and innerSegments is set.
type preparedSegment struct {
	program       *Program
	call          *graph.Call     // a call of an op whose result shapes depend on data
	innerSegments *segmentedGraph // the segment's own segments, if shapes inside it depend on data
	failed        graph.Errors    // nodes that were omitted because of [Options.KeepGoing]
}

// bytes estimates the memory that p occupies: packed weights and one [Session] (the memory of one run).
func (p *preparedSegment) bytes() int {
	const stepBytes = 2 << 10 // approximate size of the data structures of a step
	if p.program == nil {
		return stepBytes
	}
	need := p.program.need
	return sum(need.Packed, need.Arena, need.Scratch, stepBytes*len(p.program.steps))
}

// isCacheable reports whether p may be cached. A segment from which nodes were omitted may not be cached, because the
// reason may have been a temporary lack of memory.
func (p *preparedSegment) isCacheable() bool {
	return len(p.failed) == 0 && (p.program == nil || len(p.program.failed) == 0)
}

// segmentCache is the cache of prepared segments. A key is a segment and a class of input values.
type segmentCache struct {
	entries lru.Cache[classKey, *cacheEntry]
}

// classKey identifies a cache entry.
type classKey struct {
	segment *graph.Segment
	values  string // see [graph.Segment.Class]
}

// cacheEntry is an entry of segmentCache. Its lock is held during preparation. A concurrent run that needs the entry
// waits for the lock instead of preparing the segment again. The wait ends early if the context of the run ends.
type cacheEntry struct {
	lock    interrupt.Mutex
	segment *preparedSegment
}

// maxEntries is the maximum number of entries. The limit on bytes would permit very many small segments.
const maxEntries = 1024

// getOrPrepare returns the prepared segment for a class. If the cache does not have it, getOrPrepare calls prepare. If
// memory is short, getOrPrepare empties the cache and calls prepare once more.
func (c *segmentCache) getOrPrepare(ctx context.Context, key classKey,
	prepare func() (*preparedSegment, error)) (*preparedSegment, error) {
	entry, ok := c.entries.Find(key)
	if !ok {
		entry = c.entries.Put(key, &cacheEntry{})
	}
	if err := entry.lock.Lock(ctx); err != nil {
		return nil, err
	}
	defer entry.lock.Unlock()
	if entry.segment != nil {
		return entry.segment, nil
	}
	prepared, err := prepare()
	if isMemoryShortage(err) && c.entries.Clear() {
		debug.FreeOSMemory() // collects the removed entries now; otherwise their memory would still count as used
		prepared, err = prepare()
	}
	if err != nil || !prepared.isCacheable() {
		c.entries.Drop(key, entry)
		return prepared, err
	}
	entry.segment = prepared
	c.entries.SetSize(key, entry, prepared.bytes())
	return prepared, nil
}

// isMemoryShortage reports whether an error is a lack of memory.
func isMemoryShortage(err error) bool {
	return errors.As(err, new(*MemoryError)) || errors.As(err, new(*tensor.MemoryError))
}
