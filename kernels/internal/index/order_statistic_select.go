package index

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The functions of this file take an element of a line for the ops kthvalue, median, nanmedian and mode
// ([statisticKind]). Elements other than NaN are called numbers. NaN is greater than all numbers; x != x tests for it.

// statisticKind is the op that takes an element.
type statisticKind uint8

const (
	kthKind statisticKind = iota // kthvalue
	medianKind
	nanmedianKind
	modeKind
)

// statistic describes the element that a call takes of each line. k, dim and keepdim are attributes of the ops.
type statistic struct {
	kind    statisticKind
	k       int // for kthKind: the rank of the element, from 1
	dim     int
	keepdim bool
	isFlat  bool // whether all elements are one line; the call then has no result of indices
}

// selectIndex returns the index of the element that a statistic takes of a line. For example, the median of [5 2 9 2]
// is at index 3. numbers is temporary memory, as long as the line.
func selectIndex[T kit.Sortable](ctx context.Context, stat statistic, line, numbers []T) int {
	numberCount, firstNaN := copyNumbers(ctx, numbers, line)
	numbers = numbers[:numberCount]
	rank := (numberCount - 1) / 2 // of the lower median, from 0
	if stat.kind == kthKind {
		rank = stat.k - 1
	}
	switch {
	case stat.kind == modeKind && numberCount > 0:
		return lastOccurrence(ctx, line, mostFrequent(ctx, numbers))
	case stat.kind == kthKind && rank >= numberCount:
		return nthNaN(ctx, line, rank-numberCount)
	case stat.kind == medianKind && firstNaN >= 0, numberCount == 0: // an element is NaN, or all elements are
		return firstNaN
	}
	value, lesserCount := selectRank(ctx, numbers, rank)
	return nthOccurrence(ctx, line, value, rank-lesserCount) // equal elements are ranked by index
}

// copyNumbers copies the numbers of a line to dst and returns their count. It also returns the index of the first NaN,
// or -1 if there is none.
func copyNumbers[T kit.Sortable](ctx context.Context, dst, line []T) (count, firstNaN int) {
	firstNaN = -1
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i, element := range line[begin:end] {
			if element == element {
				dst[count] = element
				count++
			} else if firstNaN < 0 {
				firstNaN = begin + i
			}
		}
	})
	return count, firstNaN
}

// mostFrequent sorts numbers and returns the least of the most frequent ones.
func mostFrequent[T kit.Sortable](ctx context.Context, numbers []T) T {
	kit.Sort(ctx, numbers, compareNumbers[T])
	best, bestCount, runStart := numbers[0], 0, 0 // runStart is the start of the current run of equal numbers
	kit.ForEachBlock(ctx, len(numbers), func(begin, end int) {
		for i := begin; i < end; i++ {
			if numbers[i] != numbers[runStart] {
				runStart = i
			}
			if count := i - runStart + 1; count > bestCount {
				best, bestCount = numbers[i], count
			}
		}
	})
	return best
}

// compareNumbers compares numbers in ascending order.
func compareNumbers[T kit.Sortable](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// lastOccurrence returns the index of the last occurrence of a value in a line.
func lastOccurrence[T kit.Sortable](ctx context.Context, line []T, value T) int {
	lastIndex := 0
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i, x := range line[begin:end] {
			if x == value {
				lastIndex = begin + i
			}
		}
	})
	return lastIndex
}

// nthNaN returns the index of NaN k of a line. k counts from 0.
func nthNaN[T kit.Sortable](ctx context.Context, line []T, k int) int {
	index := 0
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i := begin; i < end && k >= 0; i++ {
			if line[i] != line[i] {
				index = i
				k--
			}
		}
	})
	return index
}

// selectRank sorts a list of up to maxSortedLen elements, and a list of any length after maxPivots pivots.
const maxPivots, maxSortedLen = 64, 32

// selectRank returns the number of the given rank, from 0, in ascending order of the numbers. It also returns the count
// of lesser numbers. It is quickselect: it partitions the list around a pivot, and continues with the part that
// contains the rank. The list is reordered.
func selectRank[T kit.Sortable](ctx context.Context, numbers []T, rank int) (value T, lesserCount int) {
	rest := numbers // the part that contains the rank
	for pivots := 0; len(rest) > maxSortedLen && pivots < maxPivots; pivots++ {
		pivot := pivotFor(rest, rank)
		less := partition(ctx, rest, func(x T) bool { return x < pivot })
		if rank < less {
			rest = rest[:less]
			continue
		}
		rest, rank, lesserCount = rest[less:], rank-less, lesserCount+less
		equal := partition(ctx, rest, func(x T) bool { return x == pivot })
		if rank < equal {
			return pivot, lesserCount
		}
		rest, rank, lesserCount = rest[equal:], rank-equal, lesserCount+equal
	}
	kit.Sort(ctx, rest, compareNumbers[T])
	value = rest[rank]
	for rank > 0 && rest[rank-1] == value {
		rank--
	}
	return value, lesserCount + rank
}

// pivotFor returns a number whose rank in the list is close to the given rank. It sorts a sample of 31 numbers at equal
// distances, and returns element rank*31/len(numbers) of the sorted sample.
func pivotFor[T kit.Sortable](numbers []T, rank int) T {
	var sample [31]T
	step := len(numbers) / len(sample)
	for i := range sample {
		sample[i] = numbers[i*step+step/2]
	}
	slices.Sort(sample[:])
	return sample[min(len(sample)-1, rank*len(sample)/len(numbers))]
}

// partition moves the numbers that satisfy isFirst to the front, and returns their count.
func partition[T kit.Sortable](ctx context.Context, numbers []T, isFirst func(x T) bool) int {
	firstCount := 0
	kit.ForEachBlock(ctx, len(numbers), func(begin, end int) {
		for i := begin; i < end; i++ {
			if x := numbers[i]; isFirst(x) {
				numbers[i], numbers[firstCount] = numbers[firstCount], x
				firstCount++
			}
		}
	})
	return firstCount
}

// nthOccurrence returns the index of occurrence k of a value in a line. k counts from 0.
func nthOccurrence[T kit.Sortable](ctx context.Context, line []T, value T, k int) int {
	index := 0
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i := begin; i < end && k >= 0; i++ {
			if line[i] == value {
				index = i
				k--
			}
		}
	})
	return index
}
