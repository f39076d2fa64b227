package workerpool

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLeaveCore checks that leaveCore moves the thread only from the given core, only if another core is permitted, and
// that the set of permitted cores stays the same.
func TestLeaveCore(t *testing.T) {
	runtime.LockOSThread() // never unlocked if the cores of the thread cannot be restored
	var permitted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &permitted); err != nil {
		t.Fatal(err)
	}
	wantUnchanged := func(want unix.CPUSet) {
		t.Helper()
		var after unix.CPUSet
		if err := unix.SchedGetaffinity(0, &after); err != nil || after != want {
			t.Fatalf("permitted cores %v, error %v: want %v", after, err, want)
		}
	}
	if leaveCore(-1) {
		t.Error("the thread left a core on which it was not")
	}
	moved := false
	for attempt := 0; attempt < 100 && !moved; attempt++ { // Linux may move the thread before leaveCore looks
		moved = leaveCore(currentCore())
	}
	if moved != (permitted.Count() > 1) {
		t.Errorf("moved: %v with %d permitted cores", moved, permitted.Count())
	}
	wantUnchanged(permitted)

	var single unix.CPUSet
	single.Set(currentCore())
	if err := unix.SchedSetaffinity(0, &single); err != nil {
		t.Fatal(err)
	}
	if leaveCore(currentCore()) {
		t.Error("the thread left the only permitted core")
	}
	wantUnchanged(single)
	if err := unix.SchedSetaffinity(0, &permitted); err != nil {
		t.Fatal(err)
	}
	runtime.UnlockOSThread()
}
