// Package suggest suggests a known name for a misspelt name.
package suggest

import (
	"iter"
	"strings"
)

// maxNames bounds the names that are compared, so that an error in a graph of a million values is reported without
// delay.
const maxNames = 1 << 16

// Nearest returns the known name that was most likely meant, or "" if none is similar. Case is ignored.
//
// Names within an edit distance (insertion, deletion, replacement, transposition) come first. The distance is 1 for
// names of up to four letters, and grows by 1 for every three further letters. At least half of the name must match.
// Among names with equal distance, a name with the same first letter is preferred, and then the first name in
// alphabetical order. If no name is within the distance, Nearest returns the shortest name that contains the given
// name. If there is none, it returns the longest name that the given name contains. Both names must have at least three
// letters.
func Nearest(name string, names iter.Seq[string]) string {
	low := strings.ToLower(name)
	best, limit, seen := "", max(1, (len(name)+1)/3), 0
	least := 2*limit + 2
	var within containment
	for other := range names {
		if seen++; seen > maxNames {
			break
		}
		near := strings.ToLower(other)
		within.consider(low, near, other)
		if d := len(other) - len(name); d > limit || -d > limit {
			continue
		}
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
	if best == "" {
		return within.best()
	}
	return best
}

// leastContained is the least length of a name that counts as a part of another name.
const leastContained = 3

// containment has the shortest name that contains the given name (around), and the longest name that the given name
// contains (inside).
type containment struct{ around, inside string }

func (c *containment) consider(name, lower, other string) {
	switch {
	case len(name) >= leastContained && strings.Contains(lower, name):
		if n := len(c.around); n == 0 || len(other) < n || len(other) == n && other < c.around {
			c.around = other
		}
	case len(other) >= leastContained && strings.Contains(name, lower):
		if n := len(c.inside); len(other) > n || len(other) == n && other < c.inside {
			c.inside = other
		}
	}
}

func (c *containment) best() string {
	if c.around != "" {
		return c.around
	}
	return c.inside
}

// DidYouMean returns the text that suggests a name at the end of a message, or "" if the name is empty.
func DidYouMean(meant string) string {
	if meant == "" {
		return ""
	}
	return "; did you mean " + meant + "?"
}

// distance returns the least number of insertions, deletions, replacements and transpositions of adjacent letters that
// change a into b. A transposed pair is not edited further (optimal string alignment).
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
