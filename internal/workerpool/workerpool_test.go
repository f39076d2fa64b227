package workerpool

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/graphrun/graphrun/internal/testsize"
)

// eventually waits until f is true, and fails the test after a while.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// nobody waits until all workers have ended.
func nobody(t *testing.T) {
	t.Helper()
	eventually(t, "workers do not leave", func() bool {
		poolLock.Lock()
		defer poolLock.Unlock()
		return workers == 0
	})
}

func TestWorkersJoinAndEnd(t *testing.T) {
	nobody(t)
	before := runtime.NumGoroutine()
	for range 3 {
		var came atomic.Int32
		j := &Job{Help: func() { came.Add(1) }}
		j.Begin()
		j.RequestWorkers(3, StartAlways)
		eventually(t, "no worker joins", func() bool { return came.Load() == 3 })
		j.End()
		if j.requestedWorkers != 0 || j.joinedWorkers != 0 || len(jobs) != 0 {
			t.Fatal("the job is not over")
		}
	}
	nobody(t)
	eventually(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
	if idleWorkers.Load() != 0 || openJobs.Load() != 0 || requestingJobs.Load() != 0 {
		t.Fatalf("idle %d, open %d, called %d", idleWorkers.Load(), openJobs.Load(), requestingJobs.Load())
	}
}

func TestEndWaitsForWorkers(t *testing.T) {
	var in, out atomic.Bool
	counted := make(chan struct{})
	j := &Job{Help: func() {
		in.Store(true)
		<-counted
		time.Sleep(20 * time.Millisecond) // longer than an owner spins before it sleeps
		out.Store(true)
	}}
	j.Begin()
	j.RequestWorkers(1, StartAlways)
	eventually(t, "no worker joins", in.Load)
	seen := j.EventCount()
	close(counted)
	if !j.Wait(seen) && !out.Load() || j.EventCount() == seen {
		t.Error("the owner did not wait for the worker that joined")
	}
	j.End()
	if !out.Load() {
		t.Error("a worker is at work after End")
	}
}

func TestNobodyToWaitFor(t *testing.T) {
	j := &Job{Help: func() {}}
	j.Begin()
	defer j.End()
	if j.Wait(j.EventCount()) {
		t.Error("workers were at work although none was requested")
	}
}

// A call wakes a sleeping owner.
func TestCallWakesTheOwner(t *testing.T) {
	var called, leave atomic.Bool
	var j Job
	j.Help = func() {
		eventually(t, "the owner does not sleep", func() bool {
			poolLock.Lock()
			defer poolLock.Unlock()
			return j.ownerSleeps
		})
		called.Store(true)
		j.RequestWorkers(0, StartNone)
		eventually(t, "the owner does not wake", leave.Load)
	}
	j.Begin()
	j.RequestWorkers(1, StartAlways)
	for !called.Load() {
		if seen := j.EventCount(); !called.Load() {
			j.Wait(seen)
		}
	}
	leave.Store(true)
	j.End()
}

// A Help that ends its goroutine does not reduce the number of workers of later jobs.
func TestWorkThatEndsItsGoroutine(t *testing.T) {
	for range testsize.Of(1000, 5000) {
		var came atomic.Bool
		j := &Job{Help: func() {
			came.Store(true)
			runtime.Goexit()
		}}
		j.Begin()
		j.RequestWorkers(1, StartAlways)
		eventually(t, "no worker joins", came.Load)
		j.End()
	}
	nobody(t)
	if n := idleWorkers.Load(); n != 0 {
		t.Errorf("%d workers are counted, but have ended", n)
	}
}

// After started workers found no job, calls with StartIfUsedRecently start none for a while.
func TestTries(t *testing.T) {
	nobody(t)
	poolLock.Lock()
	startBackoff = backoff{}
	poolLock.Unlock()
	starts := 0
	for range 100 {
		poolLock.Lock()
		before := workers
		poolLock.Unlock()
		Expect(1, StartIfUsedRecently) // no job follows
		poolLock.Lock()
		if workers > before {
			starts++
		}
		poolLock.Unlock()
		nobody(t)
	}
	if starts > 20 {
		t.Errorf("workers were started %d times in 100, and found no job", starts)
	}
}

// Expected workers are awake before the call, and a call starts no more than that.
func TestExpect(t *testing.T) {
	count := func() int {
		poolLock.Lock()
		defer poolLock.Unlock()
		return workers
	}
	nobody(t)
	Expect(1, StartNone)
	if n := count(); n != 0 {
		t.Errorf("%d workers were started with StartNone", n)
	}
	came := 0
	for range 100 { // one of them may have left before the call
		Expect(1, StartAlways)
		Expect(1, StartAlways)
		if n := count(); n > 1 {
			t.Fatalf("%d workers are awake, 1 was expected", n)
		}
		j := &Job{Help: func() {}}
		j.Begin()
		before := count()
		j.RequestWorkers(1, StartNone) // starts no worker
		for end := time.Now().Add(time.Millisecond); before == 1 && time.Now().Before(end); runtime.Gosched() {
			poolLock.Lock()
			taken := j.requestedWorkers == 0
			poolLock.Unlock()
			if taken {
				came++
				break
			}
		}
		j.End()
	}
	if came == 0 {
		t.Error("no expected worker joined")
	}
	nobody(t)
}

// Ready counts as a call with StartIfUsedRecently, so that it is not false forever.
func TestReady(t *testing.T) {
	nobody(t)
	set := func(n int) {
		poolLock.Lock()
		defer poolLock.Unlock()
		startBackoff.skips = n
	}
	contendedUntil.Store(0)
	defer set(0)
	set(2)
	for i, want := range []bool{false, false, true, true} {
		if got := Ready(StartIfUsedRecently); got != want {
			t.Errorf("try %d: %v", i, got)
		}
	}
	if Ready(StartNone) || !Ready(StartAlways) {
		t.Error("no worker is awake: want false with StartNone and true with StartAlways")
	}
	idleWorkers.Add(1)
	defer idleWorkers.Add(-1)
	if !Ready(StartNone) {
		t.Error("a worker is awake: want true with StartNone")
	}
}

// Each piece is taken once, and the pieces of a part in ascending order.
func TestParts(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 7, 100, 1000} {
		for _, c := range [][2]int{{1, 1}, {2, 2}, {3, 3}, {8, 8}, {1, 3}, {3, 8}} {
			workers := c[1]
			p := make(Parts, min(c[0], max(n, 1)))
			p.Distribute(n)
			var mu Lock
			taken := make([]atomic.Int32, n)
			var all sync.WaitGroup
			for w := range workers {
				all.Go(func() {
					own := w % len(p)
					for {
						c := p.Next(own)
						if c < 0 {
							mu.Lock()
							c = p.Steal(own)
							mu.Unlock()
						}
						if c < 0 {
							return
						}
						taken[c].Add(1)
						if c%3 == w%3 {
							runtime.Gosched() // some workers are slower
						}
					}
				})
			}
			all.Wait()
			for c := range taken {
				if k := taken[c].Load(); k != 1 {
					t.Errorf("%d pieces, %d parts, %d workers: piece %d was taken %d times", n, len(p), workers, c, k)
				}
			}
		}
	}
}

// A worker takes pieces from the front of its part, and steals the second half of another part.
func TestPartsAreContiguous(t *testing.T) {
	p := make(Parts, 2)
	p.Distribute(16)
	var order []int
	for c := p.Next(0); len(order) < 12; c = p.Next(0) {
		if c < 0 {
			c = p.Steal(0)
		}
		order = append(order, c)
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15}; !slices.Equal(order, want) {
		t.Errorf("one worker takes %v, want %v", order, want)
	}
	if c := p.Next(1); c != 8 {
		t.Errorf("a late worker begins its part at %d", c)
	}
}

// Many owners share the workers, and each job completes.
func TestManyOwners(t *testing.T) {
	var owners sync.WaitGroup
	for range 8 {
		owners.Go(func() {
			for range 200 {
				var next, done, sum atomic.Int64
				work := func() {
					for c := next.Add(1); c <= 100; c = next.Add(1) {
						sum.Add(c)
						done.Add(1)
					}
				}
				j := Job{Help: work}
				j.Begin()
				j.RequestWorkers(3, StartAlways)
				work()
				for done.Load() < 100 {
					if seen := j.EventCount(); done.Load() < 100 {
						j.Wait(seen)
					}
				}
				j.End()
				if sum.Load() != 5050 {
					panic(fmt.Sprint("the sum is ", sum.Load()))
				}
			}
		})
	}
	owners.Wait()
	nobody(t)
}

// BenchmarkHandOver measures the time from a call until an awake worker has completed the work: the 10th percentile and
// the median, because the mean depends on the load of the cores.
func BenchmarkHandOver(b *testing.B) {
	var done atomic.Int64
	j := &Job{Help: func() { done.Add(1) }}
	j.Begin()
	defer j.End()
	var times []time.Duration
	for n := int64(1); b.Loop(); n++ {
		at := time.Now()
		j.RequestWorkers(1, StartAlways)
		for l := (spinner{}); done.Load() < n; {
			l.spin()
		}
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/10]), "ns/tenth")
	b.ReportMetric(float64(times[len(times)/2]), "ns/median")
}
