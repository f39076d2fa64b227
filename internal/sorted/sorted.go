// Package sorted sorts lists with little compiled code. A package that calls slices.Sort or slices.SortFunc compiles
// their thirteen functions again for every element type: 4 to 15 KB of machine code.
package sorted

import (
	"slices"
	"sort"
)

// Keys returns the keys of a map in ascending order.
//
//go:noinline
func Keys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	Strings(keys)
	return keys
}

// Strings sorts a list in place.
//
//go:noinline
func Strings(list []string) { slices.Sort(list) }

// Ints sorts a list in place.
//
//go:noinline
func Ints(list []int) { slices.Sort(list) }

// Floats sorts a list in place. NaN is the least number.
//
//go:noinline
func Floats(list []float64) { slices.Sort(list) }

// Func sorts a list in place. Elements that compare as equal keep their order. It is slower than
// [slices.SortStableFunc] and allocates memory: kernels do not use it.
//
//go:noinline
func Func[T any](list []T, compare func(a, b T) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
