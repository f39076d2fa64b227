package environment

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The load is known on Linux, where this process alone is no load.
func TestLoad(t *testing.T) {
	var m LoadMeter
	assert.Nil(t, m.Mean())
	m.Sample()
	m.Sample()
	if runtime.GOOS == "linux" {
		require.NotNil(t, m.Mean())
		assert.Equal(t, 1, m.Samples, "the second sample follows within the interval")
		assert.Positive(t, countOwnRunnable())
	} else {
		assert.Nil(t, m.Mean())
	}
}
