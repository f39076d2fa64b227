package team

import (
	"runtime"
	"sync/atomic"
	"time"
)

// How long somebody without work looks for some before the goroutine ends or sleeps: about what it takes to be woken,
// so that it never costs more than twice what it had to. While a job is under way that is a little longer, as work
// comes in phases. Where others want the core, one who looks takes it from those who have work.
const (
	lookIdle    = 50 * time.Microsecond
	lookBusy    = 100 * time.Microsecond
	lookCrowded = 5 * time.Microsecond
)

// turnsBetween is the number of looks between two chances for other goroutines: about a microsecond.
const turnsBetween = 32

// A gap of so long between two such chances means that others had the core, be they goroutines or other processes. It
// is believed for some time.
const (
	aGap        = 200 * time.Microsecond
	crowdedTime = 20 * time.Millisecond
)

// began is what times are counted from.
var began = time.Now()

// crowdedUntil is the time until which others are believed to want the cores.
var crowdedUntil atomic.Int64

// looking is somebody who looks for work. The zero value begins to.
type looking struct {
	turns       int
	since, last time.Duration
}

// turn lets a moment pass. It reports whether there is time left to look again. From time to time it lets others
// run, so that one who looks never keeps a goroutine of the program from a core.
func (l *looking) turn() bool {
	l.turns++
	if l.turns%turnsBetween != 0 {
		pause()
		return true
	}
	runtime.Gosched()
	now := time.Since(began)
	if l.since == 0 {
		l.since, l.last = now, now
	}
	if now-l.last > aGap {
		crowdedUntil.Store(int64(now + crowdedTime))
	}
	l.last = now
	most := lookIdle
	switch {
	case int64(now) < crowdedUntil.Load():
		most = lookCrowded
	case open.Load() > 0:
		most = lookBusy
	}
	return now-l.since < most
}

// crowded reports whether others want the cores.
func crowded() bool { return int64(time.Since(began)) < crowdedUntil.Load() }

// Lock is a lock for a few instructions: who finds it taken looks again, and never sleeps. The zero value is open.
type Lock struct{ taken atomic.Uint32 }

// Lock takes the lock.
func (l *Lock) Lock() {
	for !l.taken.CompareAndSwap(0, 1) {
		for turns := 1; l.taken.Load() != 0; turns++ {
			if turns%turnsBetween == 0 {
				runtime.Gosched() // who has it may wait for a core
			}
			pause()
		}
	}
}

// Unlock opens it.
func (l *Lock) Unlock() { l.taken.Store(0) }
