package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 1: 4, 0.1: 1.3} {
		assert.InDelta(t, want, quantile([]float64{1, 2, 3, 4}, q), 1e-9, "quantile %v", q)
	}
}

func TestSpread(t *testing.T) {
	var twenty []float64
	for i := range 20 {
		twenty = append(twenty, float64(20-i))
	}
	s := SpreadOf(twenty)
	assert.Equal(t, 20, s.Runs)
	assert.Equal(t, []float64{10.5, 1, 20}, []float64{*s.Median, *s.Min, *s.Max})
	// The median of 20 is between the 6th and the 15th with a probability of 0.9586, the least over 0.95.
	assert.Equal(t, []float64{6, 15}, []float64{*s.Low, *s.High})
	assert.Equal(t, 20.0, twenty[0], "the times stay in their order")

	six := SpreadOf([]float64{3, 1, 2, 6, 5, 4})
	assert.Equal(t, []float64{1, 6}, []float64{*six.Low, *six.High}, "0.969 of all medians")
	five := SpreadOf([]float64{3, 1, 2, 5, 4})
	assert.Nil(t, five.Low, "0.9375 at most")
	assert.Nil(t, five.High)
	one := SpreadOf([]float64{7})
	assert.Equal(t, []float64{7, 7, 7, 7, 7}, []float64{*one.Median, *one.Min, *one.P10, *one.P90, *one.Max})
	assert.Equal(t, Spread{}, SpreadOf(nil))
	assert.Equal(t, Spread{}, SpreadOf([]float64{math.NaN(), math.Inf(1)}))
	assert.Equal(t, one, SpreadOf([]float64{math.NaN(), 7, math.Inf(-1)}), "what is no number is no time")
}

// The values are gonum's stat/distuv, version 0.17.0.
func TestDistributions(t *testing.T) {
	for n, want := range map[int]int{1: -1, 5: -1, 6: 0, 8: 0, 9: 1, 20: 5, 100: 39, 1000: 468, 12345: 6063,
		100000: 49689, 1000003: 499021} {
		index, ok := medianInterval(n)
		assert.Equal(t, want, index, "%d samples", n)
		assert.Equal(t, want >= 0, ok, "%d samples", n)
	}
	for x, want := range map[float64]float64{-37: 5.725571222525139e-300, -10: 7.619853024160593e-24,
		-3: 0.0013498980316300957, -1.96: 0.024997895148220435, -0.5: 0.3085375387259869, 0: 0.5, 3: 0.9986501019683699} {
		assert.InEpsilon(t, want, normalCDF(x), 1e-15, "%v", x)
	}
}

// byPermutation is the probability that chance alone sets two groups at least as far apart, by counting: of all ways
// to draw the first group out of both, twice those that are at least as far to its side.
func byPermutation(a, b []float64) float64 {
	all := slices.Concat(a, b)
	u := func(first []float64, rest []float64) (u float64) {
		for _, x := range first {
			for _, y := range rest {
				switch {
				case x > y:
					u++
				case x == y:
					u += 0.5
				}
			}
		}
		return u
	}
	have := u(a, b)
	ways, below, above := 0, 0, 0
	for set := range 1 << len(all) {
		var first, rest []float64
		for i, x := range all {
			if set>>i&1 == 1 {
				first = append(first, x)
			} else {
				rest = append(rest, x)
			}
		}
		if len(first) != len(a) {
			continue
		}
		ways++
		if u(first, rest) <= have {
			below++
		}
		if u(first, rest) >= have {
			above++
		}
	}
	return min(1, 2*float64(min(below, above))/float64(ways))
}

// The test is held to counting, for small samples with ties and without.
func TestVersusIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ties := 0
	for range 300 {
		a, b := make([]float64, 1+r.IntN(6)), make([]float64, 1+r.IntN(6))
		values := 2 + r.IntN(30)
		for _, list := range [][]float64{a, b} {
			for i := range list {
				list[i] = 100 + float64(r.IntN(values))
			}
		}
		if sorted := slices.Sorted(slices.Values(slices.Concat(a, b))); len(slices.Compact(sorted)) < len(a)+len(b) {
			ties++
		}
		v := VersusOf(a, b)
		require.NotNil(t, v.P)
		require.InDelta(t, byPermutation(a, b), *v.P, 1e-9, "%v and %v", a, b)
		require.Equal(t, *v.P < Significance, v.Significant)
	}
	assert.Greater(t, ties, 50)
}

func TestVersus(t *testing.T) {
	v := VersusOf([]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10})
	assert.InDelta(t, 2.0/252, *v.P, 1e-12, "two of the ways to choose 5 of 10")
	assert.True(t, v.Significant)
	assert.InDelta(t, 8.0/3, *v.Ratio, 1e-12)

	v = VersusOf([]float64{1, 3, 5, 7, 9, 11}, []float64{2, 4, 6, 8, 10, 12})
	assert.False(t, v.Significant, "they take turns")
	v = VersusOf([]float64{5, 5, 5, 5, 5, 5}, []float64{5, 5, 5})
	assert.Equal(t, 1.0, *v.P, "nothing differs")
	assert.False(t, v.Significant)
	v = VersusOf([]float64{1}, []float64{1000})
	assert.Equal(t, 1.0, *v.P, "one of each tells nothing")
	assert.False(t, v.Significant)
	v = VersusOf([]float64{1, 2, 3}, []float64{7, 8, 9})
	assert.InDelta(t, 0.1, *v.P, 1e-12, "three of each cannot tell")
	assert.False(t, v.Significant)

	for _, none := range [][]float64{nil, {math.NaN()}, {math.Inf(1)}} {
		assert.Equal(t, Versus{}, VersusOf([]float64{1, 2}, none))
		assert.Equal(t, Versus{}, VersusOf(none, []float64{1, 2}))
	}
	withNaN := VersusOf([]float64{1, 2, 3, 4, math.NaN(), 5}, []float64{6, 7, math.NaN(), 8, 9, 10})
	assert.InDelta(t, 2.0/252, *withNaN.P, 1e-12)
	zero := VersusOf([]float64{0, 0}, []float64{1, 2})
	assert.Nil(t, zero.Ratio, "nothing is a part of no time")

	// Where counting ends and the normal distribution begins, both give nearly the same.
	for _, shift := range []float64{0.5, 5.5, 9.5} {
		var x, y []float64
		for i := range maxExactSamples {
			x, y = append(x, float64(i)), append(y, float64(i)+shift)
		}
		y[3], y[4] = x[7], x[7]
		both := rankSamples(x, y)
		assert.InDelta(t, both.exactP(), both.normalP(), 0.003, "shifted by %v", shift)
	}
	var a, b, c []float64
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		a, b, c = append(a, r.NormFloat64()), append(b, r.NormFloat64()), append(c, r.NormFloat64()+1)
	}
	assert.False(t, VersusOf(a, b).Significant)
	assert.True(t, VersusOf(a, c).Significant)
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		u      units
		values []float64
		unit   string
		cells  []string
	}{
		{timeUnits, []float64{23.31e6, 34e6}, "ms", []string{"23.3", "34.0"}},
		{timeUnits, []float64{999, 12}, "ns", []string{"999", "12"}},
		{timeUnits, []float64{1.5e9, 2e6}, "s", []string{"1.500", "0.002"}},
		{byteUnits, []float64{0, 1 << 20}, "MiB", []string{"0.00", "1.00"}},
		{byteUnits, []float64{0, 0}, "B", []string{"0", "0"}},
		{byteUnits, []float64{1 << 60}, "TiB", []string{"1048576"}},
	} {
		var values []*float64
		for _, x := range c.values {
			values = append(values, &x)
		}
		unit, cells := c.u.cells(append(values, nil))
		assert.Equal(t, c.unit, unit)
		assert.Equal(t, append(c.cells, "-"), cells)
	}
	unit, cells := timeUnits.cells([]*float64{nil})
	assert.Equal(t, "ns", unit)
	assert.Equal(t, []string{"-"}, cells)
}
