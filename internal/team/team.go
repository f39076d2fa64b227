// Package team is the process-wide worker pool. Its workers, called hands, are goroutines that join a [Job]
// of another goroutine, which is split into chunks or has several parts at once.
//
// A hand spins for some tens of microseconds after its last work, and then ends. So work is handed over in a
// fraction of a microsecond while there is more of it (waking a goroutine takes tens of microseconds), an
// idle process has no hands, and there is nothing to close. There is one pool, because cores belong to the
// process: hands move from run to run, and there are at most as many as cores.
//
// Jobs do not depend on hands: the owner does all of a job that no hand joins.
package team

import (
	"runtime"
	"slices"
	"sync/atomic"
)

var (
	mu        Lock
	jobs      []*Job       // jobs that call for hands
	hands     int          // number of hands
	idle      atomic.Int32 // number of hands that look for work; changes under the lock
	called    atomic.Int32 // len(jobs), read by spinning hands
	open      atomic.Int32 // open jobs
	lateHands int          // grows with consecutive hands that were started and found no work
	skipCalls int          // number of Try calls that start no hand
)

// Worth is the value of work relative to the cost of starting a hand: some microseconds at once, and a delay
// of some tens of microseconds.
type Worth uint8

// Little only uses awake hands. Try also starts hands, unless recently started ones came too late: a series
// of short runs keeps hands awake, rare runs do not. Much always starts hands.
const (
	Little Worth = iota
	Try
	Much
)

// maxSkipped bounds the consecutive Try calls that start no hand.
const maxSkipped = 256

// Job is the work of one goroutine, its owner, that hands may join. The owner calls Begin, Wait and End;
// everyone working on the job may call Call. The zero value with Help set is ready, and again after End.
type Job struct {
	// Help is the work of a hand, until it finds no more. It must not panic.
	Help func()

	events  atomic.Uint32 // counts calls, leaving hands, and the end
	wanted  int           // requested hands that have not joined yet
	hands   int           // hands at work on it
	waiting bool          // the owner sleeps
	wake    chan struct{}
}

// Begin opens the job.
func (j *Job) Begin() { open.Add(1) }

// Call requests n hands, and wakes a waiting owner. Worth says whether hands are started if too few are
// awake.
func (j *Job) Call(n int, worth Worth) {
	start := 0
	mu.Lock()
	if n > 0 {
		if j.wanted == 0 {
			jobs = append(jobs, j)
			called.Store(int32(len(jobs)))
		}
		j.wanted = max(j.wanted, n)
		start = recruit(n, worth)
	}
	asleep := j.note()
	mu.Unlock()
	if asleep {
		j.wake <- struct{}{}
	}
	begin(start)
}

// Expect starts hands for a call to come, if fewer than n are awake: a call would otherwise wait for them
// some tens of microseconds. They spin like any other hand.
func Expect(n int, worth Worth) {
	if int(idle.Load()) >= n {
		return
	}
	mu.Lock()
	start := recruit(n, worth)
	mu.Unlock()
	begin(start)
}

// recruit counts the hands to start so that n are awake. The lock must be held.
func recruit(n int, worth Worth) (start int) {
	if awake := int(idle.Load()); n > awake && worth.starts() {
		start = max(min(n-awake, max(runtime.GOMAXPROCS(0)-1, n)-hands), 0)
		hands += start
		idle.Add(int32(start))
	}
	return start
}

// begin starts the counted hands.
func begin(start int) {
	for range start {
		go hand()
	}
	if start > 0 {
		// The scheduler keeps the newest goroutine on this core for some tens of microseconds, expecting this
		// goroutine to block; so the newest one is a dummy.
		go noop()
	}
}

func noop() {}

// Ready reports whether hands would join a call of that worth: some are awake, or would be started. If not,
// preparing work for sharing would waste some tenths of a microsecond.
func Ready(worth Worth) bool {
	if idle.Load() > 0 || worth == Much {
		return true
	}
	if worth == Little {
		return false
	}
	mu.Lock()
	defer mu.Unlock()
	return worth.starts()
}

// starts decides whether hands are started.
func (w Worth) starts() bool {
	if w == Try && skipCalls > 0 {
		skipCalls--
		return false
	}
	if w == Try && crowded() {
		return false
	}
	return w != Little
}

// note counts an event. It reports whether the owner must be woken.
func (j *Job) note() bool {
	j.events.Add(1)
	asleep := j.waiting
	j.waiting = false
	return asleep
}

// Seen returns the event count for Wait and Linger: read it before looking for work.
func (j *Job) Seen() uint32 { return j.events.Load() }

// Wait blocks an owner without work until an event after seen: a Call, or a leaving hand. It reports whether
// hands are at work; if none are, it returns at once.
func (j *Job) Wait(seen uint32) bool {
	for l := (spinner{}); ; {
		mu.Lock()
		n := j.hands
		mu.Unlock()
		if n == 0 || j.events.Load() != seen {
			return n > 0
		}
		more := true
		for more && j.events.Load() == seen {
			more = l.spin()
		}
		if !more {
			j.sleep(seen)
		}
	}
}

// sleep parks the owner until an event after seen.
func (j *Job) sleep(seen uint32) {
	mu.Lock()
	if j.events.Load() != seen || j.hands == 0 {
		mu.Unlock()
		return
	}
	if j.wake == nil {
		j.wake = make(chan struct{}, 1)
	}
	j.waiting = true
	mu.Unlock()
	<-j.wake
}

// Linger lets an idle hand spin until an event after seen: a Call, or the end of the job. It reports whether
// to look for work again: false after a while, or if other jobs call for hands. A lingering hand is still
// joined, so a Call need not request it.
func (j *Job) Linger(seen uint32) bool {
	for l := (spinner{}); j.events.Load() == seen; {
		if called.Load() > 0 || !l.spin() {
			return false
		}
	}
	return true
}

// End closes the job: no hand joins any more, and all hands have left when it returns.
func (j *Job) End() {
	mu.Lock()
	if j.wanted > 0 {
		j.wanted = 0
		withdraw(j)
	}
	n := j.hands
	j.events.Add(1) // for lingering hands
	mu.Unlock()
	for n > 0 {
		seen := j.Seen()
		if !j.Wait(seen) {
			break
		}
	}
	open.Add(-1)
}

// withdraw removes a job from the list.
func withdraw(j *Job) {
	if i := slices.Index(jobs, j); i >= 0 {
		jobs = slices.Delete(jobs, i, i+1)
		called.Store(int32(len(jobs)))
	}
}

// hand is the body of a hand's goroutine.
func hand() {
	joined := false
	for l := (spinner{}); ; {
		if called.Load() > 0 {
			if j := join(); j != nil {
				joined = true
				j.help()
				l = spinner{}
				continue
			}
		}
		if !l.spin() && leave(joined) {
			return
		}
	}
}

// join assigns the hand to the first job in the list.
func join() *Job {
	mu.Lock()
	defer mu.Unlock()
	if len(jobs) == 0 {
		return nil
	}
	j := jobs[0]
	if j.wanted--; j.wanted == 0 {
		withdraw(j)
	}
	j.hands++
	idle.Add(-1)
	return j
}

// help works on the joined job and leaves it. If Help ends the goroutine, the hand is no longer counted: an
// exited hand that counts as idle would keep a Call from starting another one.
func (j *Job) help() {
	returned := false
	defer func() {
		mu.Lock()
		j.hands--
		if returned {
			idle.Add(1)
		} else {
			hands--
		}
		asleep := j.note()
		mu.Unlock()
		if asleep {
			j.wake <- struct{}{}
		}
	}()
	j.Help()
	returned = true
}

// leave ends the hand, unless a job calls.
func leave(joined bool) bool {
	mu.Lock()
	defer mu.Unlock()
	if len(jobs) > 0 {
		return false
	}
	hands--
	idle.Add(-1)
	if joined {
		lateHands, skipCalls = 0, 0
	} else {
		lateHands = min(2*lateHands+1, maxSkipped)
		skipCalls = lateHands
	}
	return true
}
