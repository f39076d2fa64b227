package experiment

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
)

// maxExactSamples is the maximum number of samples of each side (a compared program) for which the probability is
// computed exactly. With more samples, the distribution of the rank sum is close to normal.
const maxExactSamples = 25

// mannWhitney returns the p-value of the two-sided Mann-Whitney U test: twice the probability of the smaller tail. (If
// some samples are equal, the distribution is asymmetric, and the tails differ.) Neither side may be empty, and no
// sample may be NaN.
func mannWhitney(a, b []float64) float64 {
	ranks := rankSamples(a, b)
	if len(ranks.tieSizes) == 1 {
		return 1 // all samples are equal
	}
	if ranks.n1 <= maxExactSamples && ranks.n2 <= maxExactSamples {
		return ranks.exactP()
	}
	return ranks.normalP()
}

// rankStatistics has the rank statistics of two sides. Equal samples share the mean of their ranks. Ranks are doubled,
// so that they are integers. For example, the sides {1, 2, 2} and {2, 3} have the sorted samples 1 2 2 2 3 with the
// ranks 1 3 3 3 5 and the tie sizes {1, 3, 1}. The doubled sum is 2*(1+3+3) = 14.
type rankStatistics struct {
	n1, n2   int   // numbers of samples of the sides
	tieSizes []int // for each distinct sample, in ascending order: the number of equal samples
	// doubledSum is the sum of the doubled ranks of the first side.
	doubledSum int
}

// rankSamples ranks the samples of two sides, which have no NaN.
func rankSamples(a, b []float64) rankStatistics {
	ranks := rankStatistics{n1: len(a), n2: len(b)}
	a, b = slices.Clone(a), slices.Clone(b)
	sorted.Floats(a)
	sorted.Floats(b)
	for before := 0; len(a)+len(b) > 0; {
		least := math.Inf(1)
		if len(a) > 0 {
			least = a[0]
		}
		if len(b) > 0 {
			least = min(least, b[0])
		}
		countA, countB := countEqual(a, least), countEqual(b, least)
		ranks.tieSizes = append(ranks.tieSizes, countA+countB)
		// The equal samples have the ranks before+1 to before+countA+countB. Twice their mean is the sum of both ends.
		ranks.doubledSum += countA * (2*before + countA + countB + 1)
		before += countA + countB
		a, b = a[countA:], b[countB:]
	}
	return ranks
}

// countEqual counts the samples at the start of a sorted list that equal the least sample.
func countEqual(sorted []float64, least float64) int {
	count := 0
	for count < len(sorted) && sorted[count] == least {
		count++
	}
	return count
}

// exactP returns the exact p-value. Among all choices of n1 ranks, it counts the choices whose sum is at most the rank
// sum of the first side (below), and the choices whose sum is at least this rank sum (above).
func (r rankStatistics) exactP() float64 {
	var below, above, allChoices float64
	for sum, count := range r.choicesBySum() {
		allChoices += count
		if sum <= r.doubledSum {
			below += count
		}
		if sum >= r.doubledSum {
			above += count
		}
	}
	return min(1, 2*min(below, above)/allChoices)
}

// choicesBySum returns, for each doubled sum, the number of ways to choose n1 ranks with this sum.
func (r rankStatistics) choicesBySum() []float64 {
	// ways[k][sum] is the number of ways to choose k of the ranks visited so far with this doubled sum.
	ways := make([][]float64, r.n1+1)
	for k := range ways {
		ways[k] = make([]float64, 2*r.n1*(r.n1+r.n2)+1)
	}
	ways[0][0] = 1
	before := 0 // number of samples with lesser ranks
	for _, tied := range r.tieSizes {
		// Add the tied samples, which have one rank. For each number `drawn` of these samples,
		//
		//	ways[k][sum] += (tied choose drawn) * ways[k-drawn][sum - drawn*doubledRank]
		//
		// k and sum descend, so that the terms on the right do not yet have these samples.
		doubledRank := 2*before + tied + 1 // the sum of the first rank, before+1, and the last rank, before+tied
		for k := r.n1; k > 0; k-- {
			choices := 1.0 // the binomial coefficient "tied choose drawn", exact in float64 for tied <= 2*maxExactSamples
			for drawn := 1; drawn <= min(k, tied); drawn++ {
				choices = choices * float64(tied-drawn+1) / float64(drawn)
				greatestSum := min(len(ways[k])-1, 2*k*(before+tied)) // no rank is greater than before+tied
				for sum := greatestSum; sum >= drawn*doubledRank; sum-- {
					ways[k][sum] += float64(choices * ways[k-drawn][sum-drawn*doubledRank])
				}
			}
		}
		before += tied
	}
	return ways[r.n1]
}

// normalP returns the p-value of the normal approximation, with corrections for ties and for continuity. With n =
// n1+n2, the rank sum has mean n1*(n+1)/2 and variance n1*n2/12 * (n + 1 - sum(t^3 - t)/(n*(n-1))), where t stands for
// the number of equal samples at each tie. The correction for continuity brings the sum 1/2 nearer to the mean.
func (r rankStatistics) normalP() float64 {
	n1, n2 := float64(r.n1), float64(r.n2)
	n, ties := n1+n2, 0.0 // ties is the sum of t^3 - t; the conversions below prevent fused multiply-adds
	for _, tied := range r.tieSizes {
		ties += float64(float64(tied) * (float64(float64(tied)*float64(tied)) - 1))
	}
	deviation := math.Sqrt(n1 * n2 / 12 * (n + 1 - ties/(n*(n-1))))
	distance := max(0, math.Abs(float64(float64(r.doubledSum)/2)-float64(n1*(n+1)/2))-0.5)
	return min(1, 2*float64(normalCDF(-distance/deviation)))
}

// normalCDF is the cumulative distribution function of the standard normal distribution.
func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

// medianInterval returns an index i into n sorted samples. For every distribution, the median is between the samples i
// and n-1-i with probability [Confidence] or more. It returns false if there are too few samples. For example, if n is
// 6, i is 0: the median is not between the least and the greatest sample with probability 2 * 2^-6.
func medianInterval(n int) (int, bool) {
	// The number of samples below the median has a binomial distribution with p = 1/2. The loop finds the least k for
	// which the probability of at most k such samples exceeds (1-Confidence)/2. The interval then begins at sample k-1.
	// The terms are computed from their logarithms, because the first terms would underflow.
	logTerm, sum := -float64(n)*math.Ln2, 0.0 // log((n choose k) / 2^n) for k = 0, and the sum of the terms up to k
	for k := 0; ; k++ {
		sum += math.Exp(logTerm)
		if 2*sum > 1-Confidence {
			return k - 1, k > 0
		}
		logTerm += math.Log(float64(n-k) / float64(k+1))
	}
}
