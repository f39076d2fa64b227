// Package suggest suggests a known name for a misspelt name.
package suggest

import (
	"iter"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/printable"
)

// maxNames bounds the names that are compared, so that an error in a graph of a million values is reported without
// delay.
const maxNames = 1 << 16

// Nearest returns the element of names that was most likely meant by name, or "" if no element is similar. Case is
// ignored. For example, if names has only "softmax", Nearest returns it for "sofmax" (edit distance 1) and for "soft"
// (contained in it).
//
// It prefers names with a small edit distance (insertion, deletion, replacement, transposition). The greatest accepted
// distance is 1 for a name of up to four bytes, 2 for five to seven, 3 for eight to ten, and so on. It is also at most
// half of the length of the longer of the two names. Among names with equal distance, Nearest prefers a name with the
// same first letter, and then the first name in alphabetical order. If no name is within the distance, Nearest returns
// the shortest name that contains the given name. If there is none, it returns the longest name that the given name
// contains. The contained name must have at least three bytes.
func Nearest(name string, names iter.Seq[string]) string {
	lowerName, maxEdits := strings.ToLower(name), max(1, (len(name)+1)/3)
	best, bestScore := "", 2*maxEdits+2 // worse than every accepted score
	var byContainment containment
	compared := 0
	for other := range names {
		if compared++; compared > maxNames {
			break
		}
		lowerOther := strings.ToLower(other)
		byContainment.consider(lowerName, lowerOther, other)
		if lengthDifference := len(other) - len(name); lengthDifference > maxEdits || -lengthDifference > maxEdits {
			continue // the edit distance is at least the difference of the lengths
		}
		edits := distance(lowerName, lowerOther)
		if edits > maxEdits || 2*edits > max(len(name), len(other)) {
			continue
		}
		score := 2 * edits // less is better
		if lowerName == "" || lowerOther == "" || lowerName[0] != lowerOther[0] {
			score++ // the first letter is seldom wrong
		}
		if score < bestScore || score == bestScore && other < best {
			best, bestScore = other, score
		}
	}
	if best == "" {
		return byContainment.best()
	}
	return best
}

// distance returns the least number of insertions, deletions, replacements and transpositions of adjacent letters that
// change a into b. A transposed pair is not edited further (optimal string alignment).
func distance(a, b string) int {
	twoAbove, above := make([]int, len(b)+1), make([]int, len(b)+1) // the two rows of distances before row
	row := make([]int, len(b)+1)                                    // row[j] is the distance of a[:i] and b[:j]
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], twoAbove[j-2]+1)
			}
		}
		twoAbove, above, row = above, row, twoAbove
	}
	return above[len(b)]
}

// minContained is the least length of a name that counts as a part of another name.
const minContained = 3

// containment has the known names that contain the given name, or that the given name contains.
type containment struct {
	shortestAround string // the shortest name that contains the given name
	longestInside  string // the longest name that the given name contains
}

// consider updates c for a known name other, whose lower-case form is lower. name is the given name in lower case.
func (c *containment) consider(name, lower, other string) {
	switch {
	case len(name) >= minContained && strings.Contains(lower, name):
		bestLen := len(c.shortestAround)
		if bestLen == 0 || len(other) < bestLen || len(other) == bestLen && other < c.shortestAround {
			c.shortestAround = other
		}
	case len(other) >= minContained && strings.Contains(name, lower):
		if bestLen := len(c.longestInside); len(other) > bestLen || len(other) == bestLen && other < c.longestInside {
			c.longestInside = other
		}
	}
}

// best returns the best known name, or "" if there is none.
func (c *containment) best() string {
	if c.shortestAround != "" {
		return c.shortestAround
	}
	return c.longestInside
}

// DidYouMean returns the end of a message that suggests a name, or "" if the name is empty.
func DidYouMean(meant string) string {
	if meant == "" {
		return ""
	}
	return "; did you mean " + printable.Text(meant) + "?"
}

// ForUnknown returns the end of a message about an unknown name. It is a question with the nearest known name or, if
// none is near, a list of the first five known names. plural is the noun for the names, such as "ops".
func ForUnknown(name, plural string, known iter.Seq[string]) string {
	if meant := Nearest(name, known); meant != "" {
		return DidYouMean(meant)
	}
	const listed = 5
	var names []string
	for other := range known {
		if other != "" && !slices.Contains(names, other) {
			names = append(names, printable.Text(other))
		}
		if len(names) > listed {
			names[listed] = "..."
			break
		}
	}
	if names == nil {
		return ""
	}
	return "; " + plural + ": " + strings.Join(names, ", ")
}
