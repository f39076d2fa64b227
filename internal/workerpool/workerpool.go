// Package workerpool is the process-wide worker pool. Workers are goroutines that join a [Job] of another goroutine. A
// job is split into chunks, or has several parts that run at the same time.
//
// A worker spins for some tens of microseconds after its last job, and then ends. In a series of jobs, a worker
// therefore joins the next job within a fraction of a microsecond; waking a goroutine would take tens of microseconds.
// An idle process has no workers, and the pool need not be closed. There is only one pool, because cores belong to the
// process: workers move from run to run. Their number is at most GOMAXPROCS-1 or, if a call requests more workers, the
// requested number.
//
// A job needs no workers: its owner does the work that no worker takes.
package workerpool

import (
	"runtime"
	"slices"
	"sync/atomic"
)

var (
	poolLock       Lock
	jobs           []*Job       // jobs that request workers
	workers        int          // number of workers
	idleWorkers    atomic.Int32 // number of workers without a job; written with poolLock held
	requestingJobs atomic.Int32 // len(jobs), for spinning workers, which read it without poolLock
	openJobs       atomic.Int32 // number of jobs between Begin and End; if positive, workers spin longer
	startBackoff   backoff      // of StartIfUsedRecently calls
)

// StartPolicy says whether a call starts workers. A start takes some microseconds of the caller's time, and the worker
// begins some tens of microseconds later. Therefore only a call with enough work should start workers.
type StartPolicy uint8

const (
	// StartNone uses only awake workers.
	StartNone StartPolicy = iota
	// StartIfUsedRecently starts workers if too few are awake, unless recently started workers found no job, or cores
	// are contended. A series of short runs therefore keeps workers awake. A rare short run starts no worker.
	StartIfUsedRecently
	// StartAlways starts workers if too few are awake.
	StartAlways
)

// backoff decides how many calls start no worker after a futile start: the start of a worker that joined no job.
type backoff struct {
	skips           int // number of next calls that start no worker
	skipsAfterStart int // skips after the latest start: 1, 3, 7 ... maxSkips after consecutive futile starts, else 0
}

// maxSkips is the maximum number of calls that start no worker after a futile start.
const maxSkips = 256

// takeSkip reports whether a call must start no worker. It counts such a call.
func (b *backoff) takeSkip() bool {
	if b.skips == 0 {
		return false
	}
	b.skips--
	return true
}

// recordStart records whether the start of a worker that now ends was futile.
func (b *backoff) recordStart(isFutile bool) {
	if !isFutile {
		*b = backoff{}
		return
	}
	b.skipsAfterStart = min(2*b.skipsAfterStart+1, maxSkips)
	b.skips = b.skipsAfterStart
}

// Job is the work of one goroutine, its owner, that workers may join. The owner calls Begin, Wait and End. The owner
// and the workers that joined may call RequestWorkers. The zero value with Help set is ready for use, and so is a job
// after End.
type Job struct {
	// Help is called by a worker that joins, and returns when the worker finds no more work. It must not panic.
	Help func()

	events           atomic.Uint32 // number of events: calls of RequestWorkers, workers that leave, the end
	requestedWorkers int           // requested workers that have not joined yet
	joinedWorkers    int           // workers that are in Help
	ownerSleeps      bool          // the owner waits for a message on wake
	wake             chan struct{} // nil until the owner sleeps for the first time
}

// Begin opens the job.
func (j *Job) Begin() { openJobs.Add(1) }

// RequestWorkers requests n workers, and wakes a waiting owner. If too few workers are awake, the policy decides
// whether more are started.
func (j *Job) RequestWorkers(n int, policy StartPolicy) {
	start := 0
	poolLock.Lock()
	if n > 0 {
		if j.requestedWorkers == 0 {
			jobs = append(jobs, j)
			requestingJobs.Store(int32(len(jobs)))
		}
		j.requestedWorkers = max(j.requestedWorkers, n)
		start = reserveWorkers(n, policy)
	}
	mustWake := j.recordEvent()
	poolLock.Unlock()
	if mustWake {
		j.wake <- struct{}{}
	}
	startWorkers(start)
}

// Expect announces a call of RequestWorkers, so that workers are awake by then. It starts workers if fewer than n are
// awake. They spin until the call, or until their spin time ends.
func Expect(n int, policy StartPolicy) {
	if int(idleWorkers.Load()) >= n {
		return
	}
	poolLock.Lock()
	start := reserveWorkers(n, policy)
	poolLock.Unlock()
	startWorkers(start)
}

// reserveWorkers adds workers to the counts of the pool, so that n workers are awake, if the policy allows it. It
// returns the number of added workers, which startWorkers must start. The pool grows to at most max(GOMAXPROCS-1, n)
// workers. The lock must be held.
func reserveWorkers(n int, policy StartPolicy) (start int) {
	if awake := int(idleWorkers.Load()); n > awake && policy.decideStart() {
		maxWorkers := max(runtime.GOMAXPROCS(0)-1, n)
		start = max(min(n-awake, maxWorkers-workers), 0)
		workers += start
		idleWorkers.Add(int32(start))
	}
	return start
}

// startWorkers starts workers that reserveWorkers has added.
func startWorkers(start int) {
	if start == 0 {
		return
	}
	s := thisThread()
	for range start {
		go runWorker(s)
	}
	// The scheduler keeps the newest goroutine on its creator's core for some tens of microseconds, because it expects the
	// creator to block. A dummy goroutine is therefore started last.
	go noop()
	s.yieldCore()
}

// noop is the dummy goroutine of startWorkers.
func noop() {}

// Ready reports whether a call of RequestWorkers with this policy would get workers: some are awake, or would be
// started. If not, the caller need not prepare shared work, which saves some tenths of a microsecond. Like
// RequestWorkers, Ready counts as one of the calls that start no worker after a futile start.
func Ready(policy StartPolicy) bool {
	if idleWorkers.Load() > 0 || policy == StartAlways {
		return true
	}
	if policy == StartNone {
		return false
	}
	poolLock.Lock()
	defer poolLock.Unlock()
	return policy.decideStart()
}

// decideStart decides whether a call with this policy may start workers. The lock must be held, because startBackoff
// may count the call.
func (policy StartPolicy) decideStart() bool {
	if policy == StartIfUsedRecently {
		return !startBackoff.takeSkip() && !coresContended()
	}
	return policy != StartNone
}

// recordEvent counts an event. It reports whether the owner must be woken.
func (j *Job) recordEvent() bool {
	j.events.Add(1)
	mustWake := j.ownerSleeps
	j.ownerSleeps = false
	return mustWake
}

// EventCount returns the number of events so far, for Wait and Linger. The caller reads it before it looks for work.
func (j *Job) EventCount() uint32 { return j.events.Load() }

// Wait blocks an owner without work until the number of events differs from eventCount, a result of [Job.EventCount].
// Events are calls of RequestWorkers and workers that leave. If the job has no workers, Wait returns immediately. It
// reports whether the job has workers.
func (j *Job) Wait(eventCount uint32) bool {
	for spinning := (spinner{}); ; {
		poolLock.Lock()
		joined := j.joinedWorkers
		poolLock.Unlock()
		if joined == 0 || j.events.Load() != eventCount {
			return joined > 0
		}
		maySpin := true
		for maySpin && j.events.Load() == eventCount {
			maySpin = spinning.spin()
		}
		if !maySpin {
			j.sleep(eventCount)
		}
	}
}

// sleep parks the owner until the number of events differs from eventCount.
func (j *Job) sleep(eventCount uint32) {
	poolLock.Lock()
	if j.events.Load() != eventCount || j.joinedWorkers == 0 {
		poolLock.Unlock()
		return
	}
	if j.wake == nil {
		j.wake = make(chan struct{}, 1)
	}
	j.ownerSleeps = true
	poolLock.Unlock()
	<-j.wake
}

// Linger lets a worker without work spin until the number of events differs from eventCount, a result of
// [Job.EventCount]. It then returns true: the worker should look for work again. It returns false if its spin time ends
// first, or if jobs request workers: the worker should leave. A lingering worker still belongs to the job. The argument
// n of RequestWorkers does not include lingering workers.
func (j *Job) Linger(eventCount uint32) bool {
	for spinning := (spinner{}); j.events.Load() == eventCount; {
		if requestingJobs.Load() > 0 || !spinning.spin() {
			return false
		}
	}
	return true
}

// End closes the job. No worker joins after End has begun, and all workers have left when it returns.
func (j *Job) End() {
	poolLock.Lock()
	if j.requestedWorkers > 0 {
		j.requestedWorkers = 0
		removeJob(j)
	}
	joined := j.joinedWorkers
	j.events.Add(1) // for lingering workers
	poolLock.Unlock()
	for joined > 0 {
		eventCount := j.EventCount()
		if !j.Wait(eventCount) {
			break
		}
	}
	openJobs.Add(-1)
}

// removeJob removes a job from the list.
func removeJob(j *Job) {
	if i := slices.Index(jobs, j); i >= 0 {
		jobs = slices.Delete(jobs, i, i+1)
		requestingJobs.Store(int32(len(jobs)))
	}
}

// runWorker is the body of a worker's goroutine.
func runWorker(startedBy starter) {
	startedBy.leaveCore()
	hasJoined := false
	for spinning := (spinner{}); ; {
		if requestingJobs.Load() > 0 {
			if j := joinFirstJob(); j != nil {
				hasJoined = true
				j.help()
				spinning = spinner{}
				continue
			}
		}
		if !spinning.spin() && leave(hasJoined) {
			return
		}
	}
}

// joinFirstJob assigns the worker to the first job in the list, and returns the job. It returns nil if the list is
// empty.
func joinFirstJob() *Job {
	poolLock.Lock()
	defer poolLock.Unlock()
	if len(jobs) == 0 {
		return nil
	}
	j := jobs[0]
	if j.requestedWorkers--; j.requestedWorkers == 0 {
		removeJob(j)
	}
	j.joinedWorkers++
	idleWorkers.Add(-1)
	return j
}

// help calls Help and leaves the job. If Help ends the goroutine ([runtime.Goexit]), help removes the worker from the
// count of workers, so that RequestWorkers starts another one.
func (j *Job) help() {
	returned := false
	defer func() {
		poolLock.Lock()
		j.joinedWorkers--
		if returned {
			idleWorkers.Add(1)
		} else {
			workers--
		}
		mustWake := j.recordEvent()
		poolLock.Unlock()
		if mustWake {
			j.wake <- struct{}{}
		}
	}()
	j.Help()
	returned = true
}

// leave removes the worker from the counts of the pool, and returns true: the worker must end. If a job requests a
// worker, it returns false. hasJoined reports whether the worker has joined a job. If not, its start was futile.
func leave(hasJoined bool) bool {
	poolLock.Lock()
	defer poolLock.Unlock()
	if len(jobs) > 0 {
		return false
	}
	workers--
	idleWorkers.Add(-1)
	startBackoff.recordStart(!hasJoined)
	return true
}
