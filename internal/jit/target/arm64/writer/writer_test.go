package writer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/jit/target"
)

// TestLargeDisplacements checks that an address with an index and a displacement that takes a register of its own has
// all three summands.
func TestLargeDisplacements(t *testing.T) {
	w := New(4, true)
	w.Broadcast(target.Addr{Base: 2, Index: 5, Scale: 2, Disp: 1 << 25}, 3)
	_, err := w.Finish()
	require.NoError(t, err)
	assert.Contains(t, w.Listing(), "add\tx16, x3, x16\n\tadd\tx16, x16, x6, lsl #1\n")
}
