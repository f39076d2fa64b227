//go:build !linux

package workerpool

func currentCore() int { return 0 }

func yieldCore() {}

func leaveCore(int) bool { return false }
