//go:build !linux

package workerpool

// starter is the thread that starts a worker. Only Linux needs it.
type starter struct{}

func thisThread() starter { return starter{} }

func (starter) yieldCore() {}

func (starter) leaveCore() bool { return false }
