package format

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/suggest"
)

// DidYouMean returns the end of a message about an unknown name: a suggestion, or "" if no known name is similar.
func DidYouMean(name string, known []string) string {
	return suggest.DidYouMean(ClosestName(name, known))
}

// WantOneOf returns the end of a message about an unknown name: all known names and a suggestion.
func WantOneOf(name string, known []string) string {
	return "want one of " + Printable(strings.Join(known, ", ")) + DidYouMean(name, known)
}

// ClosestName returns the known name that is most similar to name. If none is similar and exactly one known name
// begins with name, it returns this known name; otherwise "".
func ClosestName(name string, known []string) string {
	if nearest := suggest.Nearest(name, slices.Values(known)); nearest != "" {
		return nearest
	}
	beginsWithName := func(knownName string) bool { return len(name) > 1 && strings.HasPrefix(knownName, name) }
	i := slices.IndexFunc(known, beginsWithName)
	if i < 0 || slices.ContainsFunc(known[i+1:], beginsWithName) {
		return ""
	}
	return known[i]
}
