package team

import (
	"fmt"
	"runtime"
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
		if j.places != 0 || j.hands != 0 || len(jobs) != 0 {
			t.Fatal("the job is not over")
		}
	}
	nobody(t)
	eventually(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
	if idle != 0 || open.Load() != 0 || called.Load() != 0 {
		t.Fatalf("idle %d, open %d, called %d", idle, open.Load(), called.Load())
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
	for range 5 {
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
	if idle != 0 {
		t.Errorf("%d hands are counted that are not there", idle)
	}
}

// Hands that were started and came too late are not started for the next small thing.
func TestTries(t *testing.T) {
	nobody(t)
	mu.Lock()
	late, skip = 0, 0
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
		if j.places > 0 { // nothing is left to do at once
			j.places = 0
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

// BenchmarkHandOver is the time from a call to the moment a hand that is awake has done what it was called for.
func BenchmarkHandOver(b *testing.B) {
	var done atomic.Int64
	j := &Job{Help: func() { done.Add(1) }}
	j.Begin()
	defer j.End()
	for n := int64(1); b.Loop(); n++ {
		j.Call(1, Much)
		for l := (looking{}); done.Load() < n; {
			l.turn()
		}
	}
}
