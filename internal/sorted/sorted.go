// Package sorted sorts strings. Its sort is compiled once, but every package that calls slices.Sort for strings
// compiles its thirteen functions again.
package sorted

import "slices"

// Keys returns the keys of a map in ascending order.
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
