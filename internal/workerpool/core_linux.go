package workerpool

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Linux wakes a thread on the core that it last used. If a busy thread has this core, Linux looks for an idle core only
// among cores that share a cache. In many virtual machines, Linux does not know which cores share a cache. A new worker
// may then wait for milliseconds on the core of the goroutine that starts it, while another core is idle. Therefore the
// starter yields its core to such a worker, and the worker moves to another core.

// currentCore returns the core of the calling thread.
func currentCore() int {
	var core uint32
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0)
	return int(core)
}

// yieldCore lets another thread that waits for this core run.
func yieldCore() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// leaveCore moves the calling thread to another core if it is on the given one. It reports whether the thread moved.
func leaveCore(core int) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if currentCore() != core {
		return false
	}
	var permitted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &permitted); err != nil { // for example, a machine with more than 1024 cores
		return false
	}
	others := permitted
	others.Clear(core)
	if others.Count() == 0 || unix.SchedSetaffinity(0, &others) != nil {
		return false
	}
	return unix.SchedSetaffinity(0, &permitted) == nil
}
