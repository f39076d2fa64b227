package experiment

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSciPy compares the statistics with those of SciPy on drawn samples: testdata/statistics.py.
func TestSciPy(t *testing.T) {
	text, err := os.ReadFile("testdata/statistics.json")
	require.NoError(t, err)
	var v struct {
		MannWhitney []struct {
			A, B []float64
			P    float64
		} `json:"mann_whitney"`
		Holm           []struct{ Values, Corrected []float64 }
		MedianInterval []struct {
			Times     []float64
			Low, High *float64
		} `json:"median_interval"`
		Trend []struct {
			Times    []float64
			P, Slope float64
		}
		NormalQuantile []struct{ P, Z float64 } `json:"normal_quantile"`
	}
	require.NoError(t, json.Unmarshal(text, &v))
	require.Len(t, v.MannWhitney, 33)
	exact := 0
	for _, c := range v.MannWhitney {
		r := rankSamples(c.A, c.B)
		if len(c.A) <= maxExactSamples && len(c.B) <= maxExactSamples {
			exact++
			assert.InEpsilon(t, c.P, r.exactP(), 1e-9, "%v %v", c.A, c.B)
		} else {
			assert.InEpsilon(t, c.P, r.normalP(), 1e-9, "%v %v", c.A, c.B)
		}
		assert.Equal(t, mannWhitney(c.A, c.B), mannWhitney(c.B, c.A))
	}
	assert.Equal(t, 21, exact)
	require.Len(t, v.Holm, 20)
	for _, c := range v.Holm {
		assert.InDeltaSlice(t, c.Corrected, Holm(c.Values), 1e-12)
	}
	require.Len(t, v.MedianInterval, 7)
	for _, c := range v.MedianInterval {
		s := SpreadOf(c.Times)
		assert.Equal(t, c.Low, s.Low, "%d samples", len(c.Times))
		assert.Equal(t, c.High, s.High, "%d samples", len(c.Times))
	}
	require.Len(t, v.Trend, 21)
	for _, c := range v.Trend {
		assert.InEpsilon(t, c.P, mannKendall(c.Times), 1e-9, "%v", c.Times)
		assert.InDelta(t, c.Slope, theilSen(c.Times), 1e-9*math.Abs(c.Slope)+1e-12)
	}
	require.Len(t, v.NormalQuantile, 6)
	for _, c := range v.NormalQuantile {
		assert.InEpsilon(t, c.Z, normalQuantile(c.P), 1e-6)
		assert.InEpsilon(t, c.P, normalCDF(c.Z), 1e-9)
	}
}

// A trend needs samples that differ.
func TestTrendOfFew(t *testing.T) {
	for _, list := range [][]float64{nil, {1}, {2, 2, 2}} {
		assert.Equal(t, 1.0, mannKendall(slices.Clone(list)))
		assert.Zero(t, theilSen(list))
	}
}
