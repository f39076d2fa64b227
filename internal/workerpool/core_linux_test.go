package workerpool

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLeaveCore checks that leaveCore moves a thread only from the starter's core, only if another core is permitted,
// and that the set of permitted cores stays the same.
func TestLeaveCore(t *testing.T) {
	runtime.LockOSThread() // not unlocked if the test fails: the thread then ends with its permitted cores
	defer movingFails.Store(movingFails.Load())
	var permitted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &permitted); err != nil {
		t.Fatal(err)
	}
	otherThread := func(core int) starter { return starter{thread: -1, core: core} }
	leaves := func(s starter) bool {
		t.Helper()
		var before, after unix.CPUSet
		if err := unix.SchedGetaffinity(0, &before); err != nil {
			t.Fatal(err)
		}
		moved := s.leaveCore()
		if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
			t.Fatalf("permitted cores %v, error %v: want %v", after, err, before)
		}
		return moved
	}
	if leaves(otherThread(-1)) || leaves(otherThread(1<<20)) {
		t.Error("the thread left a core on which it was not")
	}
	if leaves(starter{thread: unix.Gettid(), core: currentCore()}) {
		t.Error("the starter's own thread moved")
	}
	canMove := permitted.Count() > 1 && unix.SchedSetaffinity(0, &permitted) == nil
	moved := false
	for attempt := 0; attempt < 100 && !moved; attempt++ { // Linux may move the thread before leaveCore looks
		moved = leaves(otherThread(currentCore()))
	}
	if moved != canMove {
		t.Errorf("moved: %v with %d permitted cores, can choose cores: %v", moved, permitted.Count(), canMove)
	}
	if !canMove {
		return
	}
	var single unix.CPUSet
	single.Set(currentCore())
	if err := unix.SchedSetaffinity(0, &single); err != nil {
		t.Fatal(err)
	}
	if leaves(otherThread(currentCore())) {
		t.Error("the thread left the only permitted core")
	}
	if !permitCores(&permitted) {
		t.Fatal("the permitted cores cannot be restored")
	}
	runtime.UnlockOSThread()
}
