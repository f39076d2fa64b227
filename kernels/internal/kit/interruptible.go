package kit

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// This file has loops that check a context and end early if it is done.

// CheckEvery is the number of steps after which a loop of simple steps checks its context.
const CheckEvery = 1 << 16

// ForEachBlock divides n elements into ranges of at most CheckEvery and calls f for each range. It checks the context
// before each range except the first, and panics as [interrupt.Check] does.
func ForEachBlock(ctx context.Context, n int, f func(begin, end int)) {
	for begin := 0; begin < n; begin += CheckEvery {
		if begin > 0 {
			interrupt.Check(ctx)
		}
		f(begin, min(begin+CheckEvery, n))
	}
}

// CopyInto copies the elements of src to dst with one worker ([iter.CopyElements]). It panics as [interrupt.Check]
// does.
func CopyInto(ctx context.Context, dst, src *tensor.Tensor) {
	if err := iter.CopyElements(ctx, dst, src, 1); err != nil {
		interrupt.Check(ctx)
		panic(err)
	}
}

// CopyTo returns a copy of source with the given meta, like [tensor.Tensor.CopyTo], and checks a context. It panics as
// [interrupt.Check] does.
func CopyTo(ctx context.Context, source *tensor.Tensor, meta tensor.Meta) *tensor.Tensor {
	meta.Offset = 0
	out := tensor.Empty(meta)
	CopyInto(ctx, out, source)
	return out
}

const (
	// maxUncheckedSort is the maximum number of elements that are sorted without a check of the context.
	maxUncheckedSort = 1 << 16
	// pivotSamples is the number of sampled elements. Their median is the pivot.
	pivotSamples = 127
	// maxBadPivots is the number of bad pivots after which quickSort falls back to [slices.SortFunc]. A pivot is bad if
	// less than a sixteenth of the list is on one side.
	maxBadPivots = 32
)

// Sort sorts a list like [slices.SortFunc] and checks a context. It panics as [interrupt.Check] does.
func Sort[E any](ctx context.Context, list []E, cmp func(a, b E) int) {
	switch {
	case len(list) <= maxUncheckedSort:
		slices.SortFunc(list, cmp)
	case !isSorted(ctx, list, cmp): // a sorted list takes one pass, as with SortFunc
		quickSort(ctx, list, cmp, maxBadPivots)
	}
}

// isSorted is [slices.IsSortedFunc] with checks of the context.
func isSorted[E any](ctx context.Context, list []E, cmp func(a, b E) int) bool {
	for i := 1; i < len(list); i++ {
		if cmp(list[i], list[i-1]) < 0 {
			return false
		}
		if i%CheckEvery == 0 {
			interrupt.Check(ctx)
		}
	}
	return true
}

// quickSort partitions a list until its parts are short, or until badPivotsLeft pivots were bad. It sorts the parts by
// [slices.SortFunc], which takes O(n log n) time for any list.
func quickSort[E any](ctx context.Context, list []E, cmp func(a, b E) int, badPivotsLeft int) {
	for len(list) > maxUncheckedSort && badPivotsLeft > 0 {
		var sample [pivotSamples]E
		for i := range sample {
			sample[i] = list[i*(len(list)/pivotSamples)]
		}
		slices.SortFunc(sample[:], cmp)
		split := partition(ctx, list, cmp, sample[pivotSamples/2])
		shorter, longer := list[:split], list[split:]
		if len(shorter) > len(longer) {
			shorter, longer = longer, shorter
		}
		if len(shorter) < len(list)/16 {
			badPivotsLeft--
		}
		quickSort(ctx, shorter, cmp, badPivotsLeft)
		list = longer
	}
	interrupt.Check(ctx)
	slices.SortFunc(list, cmp)
}

// partition reorders a list and returns an index, split. The elements of list[:split] are at most the pivot, and the
// elements of list[split:] are at least the pivot. Neither part is empty, because the pivot is an element of the list.
func partition[E any](ctx context.Context, list []E, cmp func(a, b E) int, pivot E) int {
	i, j := 0, len(list)-1
	for steps := 0; ; steps++ {
		for ; cmp(list[i], pivot) < 0; i++ {
			if i%CheckEvery == CheckEvery-1 {
				interrupt.Check(ctx)
			}
		}
		for ; cmp(list[j], pivot) > 0; j-- {
			if j%CheckEvery == CheckEvery-1 {
				interrupt.Check(ctx)
			}
		}
		if i >= j {
			return max(i, 1) // i is 0 if the pivot is the first element and all others are greater
		}
		if steps%CheckEvery == CheckEvery-1 {
			interrupt.Check(ctx)
		}
		list[i], list[j] = list[j], list[i]
		i, j = i+1, j-1
	}
}
