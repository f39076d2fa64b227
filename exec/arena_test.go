package exec

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// TestArenaDoesNotWrap: storages of absurd sizes make an arena that is beyond all memory, and none of few or negative
// bytes.
func TestArenaDoesNotWrap(t *testing.T) {
	const absurd = math.MaxInt / 16
	m := &memoryPlanner{}
	for i := range 40 {
		at, _ := m.alloc(i, absurd, i, tensor.Host)
		if at < 0 || m.host.size < min(i+1, 3)*absurd {
			t.Fatalf("storage %d is at %d of %d bytes", i, at, m.host.size)
		}
	}
}
