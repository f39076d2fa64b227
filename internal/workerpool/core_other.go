//go:build !linux

package workerpool

// starter is the thread that starts a worker. On Linux, a new worker may have to wait for the core of this thread, and
// therefore moves to another core. On other systems nothing moves.
type starter struct{}

func thisThread() starter { return starter{} }

func (starter) yieldCore() {}

// leaveCore reports whether the worker moved to another core.
func (starter) leaveCore() bool { return false }
