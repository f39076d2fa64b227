package workerpool

import (
	"runtime"
	"sync/atomic"
	"time"
)

// The time for which an idle goroutine spins before it ends or sleeps. spinIdle is about the time to wake a goroutine,
// so that spinning wastes at most as much as waking. spinOpenJob applies while a job is open, because the job may begin
// another phase. spinContended applies while other goroutines or processes use the cores.
const (
	spinIdle      = 50 * time.Microsecond
	spinOpenJob   = 100 * time.Microsecond
	spinContended = 5 * time.Microsecond
)

// spinsPerYield is the number of spins between two calls of the scheduler: about a microsecond.
const spinsPerYield = 32

// If more than contentionGap passes between two calls of the scheduler, another goroutine or process had the core. The
// cores then count as contended for contentionTime.
const (
	contentionGap  = 200 * time.Microsecond
	contentionTime = 20 * time.Millisecond
)

// timeOrigin is the origin of the times in this file.
var timeOrigin = time.Now()

// contendedUntil is the time until which the cores count as contended.
var contendedUntil atomic.Int64

// spinner is the state of a spin loop. The zero value is the state at the start of a loop.
type spinner struct {
	spins      int
	firstYield time.Duration // first call of the scheduler, as time after timeOrigin; 0: none yet
	lastYield  time.Duration // last call of the scheduler
}

// spin executes one iteration of a spin loop, and reports whether the goroutine may continue to spin. It regularly
// yields to the scheduler, so that other goroutines get the core.
func (s *spinner) spin() bool {
	s.spins++
	if s.spins%spinsPerYield != 0 {
		pause()
		return true
	}
	runtime.Gosched()
	now := time.Since(timeOrigin)
	if s.firstYield == 0 {
		s.firstYield, s.lastYield = now, now
	}
	if now-s.lastYield > contentionGap {
		contendedUntil.Store(int64(now + contentionTime))
	}
	s.lastYield = now
	limit := spinIdle
	switch {
	case int64(now) < contendedUntil.Load():
		limit = spinContended
	case openJobs.Load() > 0:
		limit = spinOpenJob
	}
	return now-s.firstYield < limit
}

// coresContended reports whether a spinning goroutine lost its core in the last contentionTime: see contentionGap.
func coresContended() bool { return int64(time.Since(timeOrigin)) < contendedUntil.Load() }

// Lock is a spin lock for a few instructions. The zero value is unlocked.
type Lock struct{ locked atomic.Uint32 }

// Lock acquires the lock.
func (l *Lock) Lock() {
	for !l.locked.CompareAndSwap(0, 1) {
		for attempts := 1; l.locked.Load() != 0; attempts++ {
			if attempts%spinsPerYield == 0 {
				runtime.Gosched() // the holder may wait for a core
			}
			pause()
		}
	}
}

// Unlock releases the lock.
func (l *Lock) Unlock() { l.locked.Store(0) }
