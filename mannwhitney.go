package graphrun

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// mostExact bounds the samples of each side of which the probability is counted out; of more, sums of ranks are
// distributed normally for all that anybody can tell.
const mostExact = 25

// ranked are the samples of two sides in one order. Samples that are equal share the mean of their ranks, so ranks are
// counted twice, to be whole.
type ranked struct {
	n1, n2 int
	ties   []int // how many samples are equal, from the least to the greatest
	sum    int   // of the first side's ranks, twice
}

// rank ranks samples of which none is NaN.
func rank(a, b []float64) ranked {
	r := ranked{n1: len(a), n2: len(b)}
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	for before := 0; len(a)+len(b) > 0; {
		least := math.Inf(1)
		if len(a) > 0 {
			least = a[0]
		}
		if len(b) > 0 {
			least = min(least, b[0])
		}
		i, j := equalTo(a, least), equalTo(b, least)
		r.ties = append(r.ties, i+j)
		r.sum += i * (2*before + i + j + 1)
		before += i + j
		a, b = a[i:], b[j:]
	}
	return r
}

// equalTo counts the samples at the head of a sorted list that are x.
func equalTo(sorted []float64, x float64) int {
	n := 0
	for n < len(sorted) && sorted[n] == x {
		n++
	}
	return n
}

// mannWhitney is the probability that two sides are at least as far apart as they are if nothing but chance sets
// them apart, by the Mann-Whitney U test, two-sided: twice that of the nearer tail, which with ties is not like the
// other one. Neither side is empty, and no sample is NaN.
func mannWhitney(a, b []float64) float64 {
	r := rank(a, b)
	if len(r.ties) == 1 {
		return 1 // all are equal
	}
	if r.n1 <= mostExact && r.n2 <= mostExact {
		return r.exact()
	}
	return r.normal()
}

// exact counts all ways to draw the first side's ranks.
func (r ranked) exact() float64 {
	// ways holds, for a number of ranks drawn and twice their sum, in how many ways that is done with the ranks so far.
	ways := make([][]float64, r.n1+1)
	for k := range ways {
		ways[k] = make([]float64, 2*r.n1*(r.n1+r.n2)+1)
	}
	ways[0][0] = 1
	before := 0
	for _, t := range r.ties {
		twice := 2*before + t + 1
		for k := r.n1; k > 0; k-- {
			for drawn := 1; drawn <= min(k, t); drawn++ {
				choices := float64(combin.Binomial(t, drawn))
				for s := len(ways[k]) - 1; s >= drawn*twice; s-- {
					ways[k][s] += choices * ways[k-drawn][s-drawn*twice]
				}
			}
		}
		before += t
	}
	var below, above, all float64
	for s, n := range ways[r.n1] {
		all += n
		if s <= r.sum {
			below += n
		}
		if s >= r.sum {
			above += n
		}
	}
	return min(1, 2*min(below, above)/all)
}

// normal takes the sum of ranks as distributed normally, with the corrections for ties and for sums being whole.
func (r ranked) normal() float64 {
	n1, n2 := float64(r.n1), float64(r.n2)
	n, ties := n1+n2, 0.0
	for _, t := range r.ties {
		ties += float64(t) * (float64(t)*float64(t) - 1)
	}
	deviation := math.Sqrt(n1 * n2 / 12 * (n + 1 - ties/(n*(n-1))))
	apart := max(0, math.Abs(float64(r.sum)/2-n1*(n+1)/2)-0.5)
	return min(1, 2*distuv.UnitNormal.CDF(-apart/deviation))
}

// medianInterval is the order statistic, counted from 0, from which as far as that counted from the other end the
// median of a distribution lies with [Confidence], whatever the distribution is; false where there are too few samples.
func medianInterval(n int) (int, bool) {
	b := distuv.Binomial{N: float64(n), P: 0.5}
	low, high := 0, n // the greatest number of which so few or fewer samples are below the median too seldom to matter
	for low < high {
		if k := (low + high) / 2; 2*b.CDF(float64(k)) <= 1-Confidence {
			low = k + 1
		} else {
			high = k
		}
	}
	return low - 1, low > 0
}
