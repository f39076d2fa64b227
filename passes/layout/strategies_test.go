package layout_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/passes/layout"
)

// Strategies are values to compare, and a name finds the very one.
func TestStrategiesCompare(t *testing.T) {
	for i, s := range layout.All() {
		named, err := layout.Named(s.Name())
		require.NoError(t, err)
		assert.True(t, s == named)
		assert.Equal(t, i == 0, s == layout.Propagate)
	}
}
