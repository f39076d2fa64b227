package team

import (
	"runtime"
	"sync/atomic"
	"time"
)

// How long somebody without work looks for some before the goroutine ends or sleeps: for a while after the last job,
// so that the next of a row of runs finds hands awake, and longer while a job is under way, where work comes in
// phases and to be woken takes as long as most of them.
const (
	lookIdle = 50 * time.Microsecond
	lookBusy = 500 * time.Microsecond
)

// turnsBetween is the number of looks between two chances for other goroutines: about a microsecond.
const turnsBetween = 32

// began is what times are counted from.
var began = time.Now()

// looking is somebody who looks for work. The zero value begins to.
type looking struct {
	turns int
	since time.Duration
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
		l.since = now
	}
	most := lookIdle
	if open.Load() > 0 {
		most = lookBusy
	}
	return now-l.since < most
}

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
