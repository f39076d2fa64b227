//go:build !arm64

package machine

// CallDivisor divides the bounds on the work of one call of machine code. Such a call cannot be preempted. The bounds
// are tuned for amd64, where the divisor is 1. Slow cores of arm64 are estimated to take four times as long.
const CallDivisor = 1
