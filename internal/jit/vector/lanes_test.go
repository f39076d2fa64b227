//go:build linux || darwin

package vector

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr/expand"
)

// TestLanesOfRandomLoops: random loops become valid lanes, with one store for each stored output.
func TestLanesOfRandomLoops(t *testing.T) {
	for seed := range uint64(1000) {
		l, err := randomLoop(rand.New(rand.NewPCG(seed, 7)), 12)
		require.NoError(t, err)
		l, err = expandLoop(l, expand.Target{})
		require.NoError(t, err)
		_, err = lanesOf(l)
		require.NoError(t, err, "seed %d\n%v", seed, l.Code)
	}
}
