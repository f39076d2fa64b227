package bench

import (
	"testing"
	"time"
)

// Every time is the same whole number of nanoseconds for who drops what is behind them.
func TestTraceTimes(t *testing.T) {
	for ns := range time.Duration(2_000_000) {
		if got := int64(*microseconds(ns) * 1000); got != int64(ns) {
			t.Fatalf("%d ns are read as %d", ns, got)
		}
	}
}
