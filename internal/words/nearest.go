// Package words finds the name that may have been meant by one that there is not.
package words

import (
	"iter"
	"strings"
)

// maxNames bounds the names that are compared with a misspelt one: a graph of a million
// values must not make its mistakes slow to tell.
const maxNames = 1 << 16

// Nearest returns the name that was most likely meant by one that there is not, empty if
// none is near. Upper and lower case count as the same. Letters to insert, drop or replace,
// and neighbours that changed places, are counted: one is allowed for names of up to five
// letters, one more for every three further ones, and at least half of the name must be
// right. Of several the one with the same first letter is taken, then the first by the
// alphabet.
func Nearest(name string, names iter.Seq[string]) string {
	low := strings.ToLower(name)
	best, limit, seen := "", max(1, (len(name)+1)/3), 0
	least := 2*limit + 2
	for other := range names {
		if seen++; seen > maxNames {
			break
		}
		if d := len(other) - len(name); d > limit || -d > limit {
			continue
		}
		near := strings.ToLower(other)
		d := distance(low, near)
		score := 2 * d
		if low == "" || near == "" || low[0] != near[0] {
			score++ // the first letter is seldom wrong
		}
		if d > limit || score > least || score == least && (best == "" || best <= other) {
			continue
		}
		if 2*d <= max(len(name), len(other)) {
			best, least = other, score
		}
	}
	return best
}

// DidYouMean ends a message with a suggestion; it is empty without one.
func DidYouMean(meant string) string {
	if meant == "" {
		return ""
	}
	return "; did you mean " + meant + "?"
}

// distance is the number of letters to insert, drop, replace or swap with their neighbour
// (Damerau and Levenshtein; a swapped pair is not changed further).
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
