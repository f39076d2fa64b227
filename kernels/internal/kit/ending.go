package kit

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// LookEvery is how many simple steps a loop takes between two looks at a context.
const LookEvery = 1 << 16

// Blocks calls f for ranges of at most LookEvery of n elements, and looks at the context before each but the first. It
// panics as [ends.Look] does.
func Blocks(ctx context.Context, n int, f func(begin, end int)) {
	for begin := 0; begin < n; begin += LookEvery {
		if begin > 0 {
			ends.Look(ctx)
		}
		f(begin, min(begin+LookEvery, n))
	}
}

// CopyInto is [iter.CopyElements] by one worker. It panics as [ends.Look] does.
func CopyInto(ctx context.Context, dst, src *tensor.Tensor) {
	if err := iter.CopyElements(ctx, dst, src, 1); err != nil {
		ends.Look(ctx)
		panic(err)
	}
}

// CopyTo is [tensor.Tensor.CopyTo] that looks at a context. It panics as [ends.Look] does.
func CopyTo(ctx context.Context, t *tensor.Tensor, m tensor.Meta) *tensor.Tensor {
	m.Offset = 0
	out := tensor.Empty(m)
	CopyInto(ctx, out, t)
	return out
}

const (
	// sortPiece is how many elements are sorted without a look at the context.
	sortPiece = 1 << 16
	// pivotSample is how many elements the pivot of a longer list is the median of.
	pivotSample = 127
	// badPivots is how many pivots may leave less than a sixteenth on one side.
	badPivots = 32
)

// Sort is [slices.SortFunc] that looks at a context. It panics as [ends.Look] does.
func Sort[E any](ctx context.Context, s []E, cmp func(a, b E) int) {
	switch {
	case len(s) <= sortPiece:
		slices.SortFunc(s, cmp)
	case !isSorted(ctx, s, cmp):
		quickSort(ctx, s, cmp, badPivots)
	}
}

// isSorted is [slices.IsSortedFunc] that looks at a context.
func isSorted[E any](ctx context.Context, s []E, cmp func(a, b E) int) bool {
	for i := 1; i < len(s); i++ {
		if cmp(s[i], s[i-1]) < 0 {
			return false
		}
		if i%LookEvery == 0 {
			ends.Look(ctx)
		}
	}
	return true
}

// quickSort parts a list until its pieces are short. After too many bad pivots it leaves the rest to
// [slices.SortFunc], which no order of elements makes slow.
func quickSort[E any](ctx context.Context, s []E, cmp func(a, b E) int, bad int) {
	for len(s) > sortPiece && bad > 0 {
		var sample [pivotSample]E
		for i := range sample {
			sample[i] = s[i*(len(s)/pivotSample)]
		}
		slices.SortFunc(sample[:], cmp)
		at := partition(ctx, s, cmp, sample[pivotSample/2])
		left, right := s[:at], s[at:]
		if len(left) > len(right) {
			left, right = right, left
		}
		if len(left) < len(s)/16 {
			bad--
		}
		quickSort(ctx, left, cmp, bad)
		s = right
	}
	ends.Look(ctx)
	slices.SortFunc(s, cmp)
}

// partition puts elements that are not after the pivot before those that are not before it, and returns where these
// begin. The pivot is between the least and the greatest element, so that both parts have elements.
func partition[E any](ctx context.Context, s []E, cmp func(a, b E) int, pivot E) int {
	i, j := 0, len(s)-1
	for steps := 0; ; steps++ {
		for ; cmp(s[i], pivot) < 0; i++ {
			if i%LookEvery == LookEvery-1 {
				ends.Look(ctx)
			}
		}
		for ; cmp(s[j], pivot) > 0; j-- {
			if j%LookEvery == LookEvery-1 {
				ends.Look(ctx)
			}
		}
		if i >= j {
			return max(i, 1)
		}
		if steps%LookEvery == LookEvery-1 {
			ends.Look(ctx)
		}
		s[i], s[j] = s[j], s[i]
		i, j = i+1, j-1
	}
}
