// Package team has the workers of the process beside those who ask for work to be done: hands, which join a job
// that is split or that has several parts at once.
//
// A hand is a goroutine that looks for work for some tens of microseconds after its last, and then ends. So work is
// handed over in a fraction of a microsecond as long as there is more of it, where to wake a goroutine takes tens of
// microseconds; an idle process has no hands; and there is nothing to close. There is one team because cores are the
// process's: hands go from a run to the next, whoever asks for it, and there are no more of them than cores.
//
// Nobody depends on hands: who has a job does all of it where none comes.
package team

import (
	"runtime"
	"slices"
	"sync/atomic"
)

var (
	mu     Lock
	jobs   []*Job       // that hands are called to
	hands  int          // how many there are
	idle   atomic.Int32 // of these, how many look for work; it changes under the lock
	called atomic.Int32 // the number of jobs: what those who look for work look at
	open   atomic.Int32 // jobs under way
	late   int          // grows with hands in a row that were started and found nothing to do
	skip   int          // how many calls that are worth a try start nobody
)

// Worth is what there is to do, beside what it costs to start a hand: some microseconds at once, and it comes some
// tens of microseconds later.
type Worth uint8

// Little is for hands that are awake alone. Try starts hands too, unless those started so came too late before: a row
// of short runs keeps them awake, runs that come seldom do not. Much starts hands in any case.
const (
	Little Worth = iota
	Try
	Much
)

// mostSkipped bounds how many calls in a row start nobody because hands came too late.
const mostSkipped = 256

// Job is work of one goroutine, its owner, that hands may join. The owner calls Begin, Wait and End; Call is for
// everybody at work on it. The zero value with Help set is ready, and again after End.
type Job struct {
	// Help is what a hand does: it works until it finds nothing more to do. It must not panic.
	Help func()

	events  atomic.Uint32 // calls, hands that left, and the end
	places  int           // hands that are called and have not come
	hands   int           // at work on it
	waiting bool          // the owner sleeps
	wake    chan struct{}
}

// Begin opens the job.
func (j *Job) Begin() { open.Add(1) }

// Call asks for n hands, and tells the owner, where it waits, that there may be something to do. Worth says whether
// others are started where too few are awake.
func (j *Job) Call(n int, worth Worth) {
	start := 0
	mu.Lock()
	if n > 0 {
		if j.places == 0 {
			jobs = append(jobs, j)
			called.Store(int32(len(jobs)))
		}
		j.places = max(j.places, n)
		start = recruit(n, worth)
	}
	asleep := j.note()
	mu.Unlock()
	if asleep {
		j.wake <- struct{}{}
	}
	begin(start)
}

// Expect starts hands, where fewer than n are awake, for a call to come that is worth so much: who calls when they are
// needed waits for them some tens of microseconds. They look for work as long as any.
func Expect(n int, worth Worth) {
	if int(idle.Load()) >= n {
		return
	}
	mu.Lock()
	start := recruit(n, worth)
	mu.Unlock()
	begin(start)
}

// recruit counts the hands that are to begin, so that n are awake. It is called under the lock.
func recruit(n int, worth Worth) (start int) {
	if awake := int(idle.Load()); n > awake && worth.starts() {
		start = max(min(n-awake, max(runtime.GOMAXPROCS(0)-1, n)-hands), 0)
		hands += start
		idle.Add(int32(start))
	}
	return start
}

// begin starts hands that were counted.
func begin(start int) {
	for range start {
		go hand()
	}
	if start > 0 {
		// The goroutine that was made last is not taken over by another core for some tens of microseconds, in
		// the belief that this one will run it at once.
		go nothing()
	}
}

func nothing() {}

// Ready reports whether hands will come to a call that is worth so much: some are awake, or would be started. Where
// none will, work costs less that is not made ready for others, by some tenths of a microsecond.
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
	if w == Try && skip > 0 {
		skip--
		return false
	}
	if w == Try && crowded() {
		return false
	}
	return w != Little
}

// note counts an event. It reports whether the owner is to be woken.
func (j *Job) note() bool {
	j.events.Add(1)
	asleep := j.waiting
	j.waiting = false
	return asleep
}

// Seen returns what Wait takes: ask for it before looking for something to do.
func (j *Job) Seen() uint32 { return j.events.Load() }

// Wait lets the owner wait, who found nothing to do, until Call is called or a hand leaves, since Seen. It reports
// whether hands are at work: where none is, nothing will happen, and it returns at once.
func (j *Job) Wait(seen uint32) bool {
	for l := (looking{}); ; {
		mu.Lock()
		n := j.hands
		mu.Unlock()
		if n == 0 || j.events.Load() != seen {
			return n > 0
		}
		more := true
		for more && j.events.Load() == seen {
			more = l.turn()
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

// Linger lets a hand that found nothing to do wait until Call is called, since Seen, or the job ends. It reports
// whether to look again: it is false after a while, or where other jobs call for hands. One that lingers need not join
// again, and is none that Call has to ask for.
func (j *Job) Linger(seen uint32) bool {
	for l := (looking{}); j.events.Load() == seen; {
		if called.Load() > 0 || !l.turn() {
			return false
		}
	}
	return true
}

// End closes the job: no hand comes any more, and those that are there have left when it returns.
func (j *Job) End() {
	mu.Lock()
	if j.places > 0 {
		j.places = 0
		withdraw(j)
	}
	n := j.hands
	j.events.Add(1) // for those that linger
	mu.Unlock()
	for n > 0 {
		seen := j.Seen()
		if !j.Wait(seen) {
			break
		}
	}
	open.Add(-1)
}

// withdraw takes a job from the list.
func withdraw(j *Job) {
	if i := slices.Index(jobs, j); i >= 0 {
		jobs = slices.Delete(jobs, i, i+1)
		called.Store(int32(len(jobs)))
	}
}

// hand is the life of one.
func hand() {
	joined := false
	for l := (looking{}); ; {
		if called.Load() > 0 {
			if j := join(); j != nil {
				joined = true
				j.helped()
				l = looking{}
				continue
			}
		}
		if !l.turn() && leave(joined) {
			return
		}
	}
}

// join makes the hand one of the first job in the list.
func join() *Job {
	mu.Lock()
	defer mu.Unlock()
	if len(jobs) == 0 {
		return nil
	}
	j := jobs[0]
	if j.places--; j.places == 0 {
		withdraw(j)
	}
	j.hands++
	idle.Add(-1)
	return j
}

// helped works on the job that the hand has joined, and leaves it. A hand whose goroutine the work ends looks for no
// more: were it counted among those who do until it is gone, a call meanwhile would start nobody else.
func (j *Job) helped() {
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

// leave ends a hand, unless it is called.
func leave(joined bool) bool {
	mu.Lock()
	defer mu.Unlock()
	if len(jobs) > 0 {
		return false
	}
	hands--
	idle.Add(-1)
	if joined {
		late, skip = 0, 0
	} else {
		late = min(2*late+1, mostSkipped)
		skip = late
	}
	return true
}
