package machine

// CallDivisor divides the work of one call of machine code, which cannot be preempted. The bounds on that work are
// tuned for amd64, where the divisor is 1. Slow cores of arm64 take four times as long (an estimate).
const CallDivisor = 4
