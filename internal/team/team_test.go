package team

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// eventually waits for something that must come true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// nobody waits until all hands have left.
func nobody(t *testing.T) {
	t.Helper()
	eventually(t, "hands do not leave", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return hands == 0
	})
}

func TestHandsComeAndLeave(t *testing.T) {
	nobody(t)
	before := runtime.NumGoroutine()
	for range 3 {
		var came atomic.Int32
		j := &Job{Help: func() { came.Add(1) }}
		j.Begin()
		j.Call(3, Much)
		eventually(t, "no hand comes", func() bool { return came.Load() == 3 })
		j.End()
		if j.wanted != 0 || j.hands != 0 || len(jobs) != 0 {
			t.Fatal("the job is not over")
		}
	}
	nobody(t)
	eventually(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
	if idle.Load() != 0 || open.Load() != 0 || called.Load() != 0 {
		t.Fatalf("idle %d, open %d, called %d", idle.Load(), open.Load(), called.Load())
	}
}

func TestEndWaitsForHands(t *testing.T) {
	var in, out atomic.Bool
	j := &Job{Help: func() {
		in.Store(true)
		time.Sleep(20 * time.Millisecond) // longer than an owner looks before it sleeps
		out.Store(true)
	}}
	j.Begin()
	j.Call(1, Much)
	eventually(t, "no hand comes", in.Load)
	seen := j.Seen()
	if !j.Wait(seen) && !out.Load() || j.Seen() == seen {
		t.Error("the owner did not wait for the hand that is there")
	}
	j.End()
	if !out.Load() {
		t.Error("a hand is at work after End")
	}
}

func TestNobodyToWaitFor(t *testing.T) {
	j := &Job{Help: func() {}}
	j.Begin()
	defer j.End()
	if j.Wait(j.Seen()) {
		t.Error("hands were at work where none was called")
	}
}

// A sleeping owner hears of calls, too.
func TestCallWakesTheOwner(t *testing.T) {
	var called, leave atomic.Bool
	var j Job
	j.Help = func() {
		eventually(t, "the owner does not sleep", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return j.waiting
		})
		called.Store(true)
		j.Call(0, Little)
		eventually(t, "the owner does not wake", leave.Load)
	}
	j.Begin()
	j.Call(1, Much)
	for !called.Load() {
		if seen := j.Seen(); !called.Load() {
			j.Wait(seen)
		}
	}
	leave.Store(true)
	j.End()
}

// Work that ends its goroutine takes no hand from others.
func TestWorkThatEndsItsGoroutine(t *testing.T) {
	for range 5000 {
		var came atomic.Bool
		j := &Job{Help: func() {
			came.Store(true)
			runtime.Goexit()
		}}
		j.Begin()
		j.Call(1, Much)
		eventually(t, "no hand comes", came.Load)
		j.End()
	}
	nobody(t)
	if n := idle.Load(); n != 0 {
		t.Errorf("%d hands are counted that are not there", n)
	}
}

// Hands that were started and came too late are not started for the next small thing.
func TestTries(t *testing.T) {
	nobody(t)
	mu.Lock()
	lateHands, skipCalls = 0, 0
	mu.Unlock()
	j := &Job{Help: func() {}}
	starts := 0
	for range 100 {
		j.Begin()
		mu.Lock()
		before := hands
		mu.Unlock()
		j.Call(1, Try)
		mu.Lock()
		if hands > before {
			starts++
		}
		if j.wanted > 0 { // nothing is left to do at once
			j.wanted = 0
			withdraw(j)
		}
		mu.Unlock()
		j.End()
		nobody(t)
	}
	if starts > 20 {
		t.Errorf("hands were started %d times in 100, each of them for nothing", starts)
	}
}

// Hands that are expected are there before the call, and no more of them come than are.
func TestExpect(t *testing.T) {
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return hands
	}
	nobody(t)
	Expect(1, Little)
	if n := count(); n != 0 {
		t.Errorf("%d hands came for little", n)
	}
	came := 0
	for range 100 { // one of them may have left before the call
		Expect(1, Much)
		Expect(1, Much)
		if n := count(); n > 1 {
			t.Fatalf("%d hands came, 1 was expected", n)
		}
		j := &Job{Help: func() {}}
		j.Begin()
		before := count()
		j.Call(1, Little) // starts nobody
		for end := time.Now().Add(time.Millisecond); before == 1 && time.Now().Before(end); runtime.Gosched() {
			mu.Lock()
			taken := j.wanted == 0
			mu.Unlock()
			if taken {
				came++
				break
			}
		}
		j.End()
	}
	if came == 0 {
		t.Error("no hand that was expected came to a call")
	}
	nobody(t)
}

// Who asks whether hands will come counts as one who calls in vain: the next try is not put off for ever.
func TestReady(t *testing.T) {
	nobody(t)
	set := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		skipCalls = n
	}
	crowdedUntil.Store(0)
	defer set(0)
	set(2)
	for i, want := range []bool{false, false, true, true} {
		if got := Ready(Try); got != want {
			t.Errorf("try %d: %v", i, got)
		}
	}
	if Ready(Little) || !Ready(Much) {
		t.Error("nobody is awake: little is not worth a start, much is")
	}
	idle.Add(1)
	defer idle.Add(-1)
	if !Ready(Little) {
		t.Error("a hand that is awake comes to little, too")
	}
}

// Pieces are handed out once each, in rising order within a part, whoever takes them.
func TestParts(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 7, 100, 1000} {
		for _, c := range [][2]int{{1, 1}, {2, 2}, {3, 3}, {8, 8}, {1, 3}, {3, 8}} {
			workers := c[1]
			p := make(Parts, min(c[0], max(n, 1)))
			p.Deal(n)
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
							runtime.Gosched() // some are slower
						}
					}
				})
			}
			all.Wait()
			for c := range taken {
				if k := taken[c].Load(); k != 1 {
					t.Errorf("%d pieces, %d parts, %d workers: piece %d was handed out %d times", n, len(p), workers, c, k)
				}
			}
		}
	}
}

// A worker takes its part from the front, and of another's the second half.
func TestPartsAreContiguous(t *testing.T) {
	p := make(Parts, 2)
	p.Deal(16)
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
		t.Errorf("who comes late begins its part at %d", c)
	}
}

// Many owners share the hands that there are, and each finds its own work done.
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
				j.Call(3, Much)
				work()
				for done.Load() < 100 {
					if seen := j.Seen(); done.Load() < 100 {
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

// BenchmarkHandOver is the time from a call to the moment a hand that is awake has done what it was called for, and the
// tenth and the median of these times: where others want the cores, a mean tells of them.
func BenchmarkHandOver(b *testing.B) {
	var done atomic.Int64
	j := &Job{Help: func() { done.Add(1) }}
	j.Begin()
	defer j.End()
	var times []time.Duration
	for n := int64(1); b.Loop(); n++ {
		at := time.Now()
		j.Call(1, Much)
		for l := (spinner{}); done.Load() < n; {
			l.spin()
		}
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/10]), "ns/tenth")
	b.ReportMetric(float64(times[len(times)/2]), "ns/median")
}
