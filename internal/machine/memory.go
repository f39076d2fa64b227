// Package machine tells how much memory the process may still take.
//
// What bounds it is read from /proc and /sys, so that it is known on Linux only: the limits
// of the control groups that the process is in and of those above them (both versions),
// the limits on its address space and its data (ulimit -v and -d), and what the machine has
// left. On other systems nothing is known, and only what no machine has is refused.
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

// Limit is one bound on the memory of the process.
type Limit struct {
	Left  int    // bytes that the process may still take, 0 or more
	Total int    // the bound itself, in bytes
	Name  string // whose bound it is, as in "the address space of the process (ulimit -v)"
}

// sane bounds what is asked for where nothing else does: more than this no machine has,
// and Go's heap cannot address much more.
const sane = min(1<<46, math.MaxInt/2)

// unknown is the limit where no other is known.
var unknown = Limit{sane, sane, "what a process can address"}

// Memory returns the tightest limit as it is now.
func Memory() Limit { return memory(false) }

func memory(block bool) Limit { return least(read(os.DirFS("/"), idle(), block)) }

// least returns the limit that leaves the least.
func least(limits []Limit) Limit {
	l := unknown
	for _, x := range limits {
		if x.Left < l.Left {
			l = x
		}
	}
	return l
}

// idleHeap is memory that Go's heap holds and has no use for.
type idleHeap struct {
	free     int // backed by memory
	released int // addresses only
}

func idle() idleHeap {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return idleHeap{int(s[0].Value.Uint64()), int(s[1].Value.Uint64())}
}

// read lists all limits that the files state. A file that cannot be read states none. With block, the limit of the
// address space is that of a single allocation.
func read(fsys fs.FS, heap idleHeap, block bool) []Limit {
	m := meminfo(fsys)
	limits := groups(fsys, m)
	if total := m["MemTotal"]; total > 0 {
		limits = append(limits, Limit{m.available() + m["SwapFree"], total + m["SwapTotal"], "the memory of this machine"})
	}
	for i := range limits {
		// Page tables and the collector's own books come on top of what is asked for.
		limits[i].Left -= limits[i].Left/64 - heap.free
	}
	for _, l := range ownLimits(fsys) {
		// Go takes addresses from the system in pieces of 64 MiB.
		l.Left -= 2 << 26
		if held := heap.free + heap.released; block {
			l.Left = max(l.Left, held) // a block is in new addresses or in free ones, which need not be adjacent
		} else {
			l.Left += held
		}
		limits = append(limits, l)
	}
	for i := range limits {
		limits[i].Left = max(limits[i].Left, 0)
	}
	return limits
}

// recent is the last reading: what is left of what was left then, and when it was.
type recent struct {
	left atomic.Int64
	at   time.Time
}

var last atomic.Pointer[recent]

// Fits reports whether the process may take so many bytes more, and the limit that says
// so. Before it says no, garbage is collected. Asked for little beside what was left a
// moment ago it does not look again, and the limit is zero.
func Fits(bytes int) (Limit, bool) { return fits(bytes, false) }

// FitsBlock is [Fits] for a single allocation.
func FitsBlock(bytes int) (Limit, bool) { return fits(bytes, true) }

func fits(bytes int, block bool) (Limit, bool) {
	if r := last.Load(); r != nil && int64(bytes) < r.left.Load()/8 && time.Since(r.at) < time.Second/4 {
		r.left.Add(-int64(bytes))
		return Limit{}, true
	}
	l := memory(block)
	if bytes > l.Left && bytes <= sane {
		runtime.GC()
		debug.FreeOSMemory()
		l = memory(block)
	}
	r := &recent{at: time.Now()}
	r.left.Store(int64(l.Left - min(bytes, l.Left)))
	last.Store(r)
	return l, bytes <= l.Left
}

// String tells the limit and what it leaves.
func (l Limit) String() string {
	return fmt.Sprintf("%s is %s, of which %s is left", l.Name, Bytes(l.Total), Bytes(l.Left))
}

// Bytes prints a number of bytes in the largest binary unit that leaves it over 1.
func Bytes(n int) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	}
	x, unit := float64(n)/(1<<10), 0
	for ; x >= 1<<10 && unit < 5; unit++ {
		x /= 1 << 10
	}
	return fmt.Sprintf("%.4g %s", x, [...]string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}[unit])
}
