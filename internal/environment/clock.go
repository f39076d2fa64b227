package environment

import "time"

// ClockCost measures the time of reading the clock.
func ClockCost() time.Duration {
	start, cost := time.Now(), time.Microsecond
	last := time.Since(start)
	for range 1000 { // the least difference of consecutive times
		now := time.Since(start)
		cost, last = min(cost, now-last), now
	}
	return cost
}
