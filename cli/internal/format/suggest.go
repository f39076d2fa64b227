package format

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/suggest"
)

// DidYouMean is the end of a message about an unknown name; it is empty if no known name is similar.
func DidYouMean(name string, known []string) string { return suggest.DidYouMean(Meant(name, known)) }

// WantOneOf is the end of a message about a name that is none of a few.
func WantOneOf(name string, known []string) string {
	return "want one of " + strings.Join(known, ", ") + DidYouMean(name, known)
}

// Meant returns the most similar known name, or the only one with this prefix.
func Meant(name string, known []string) string {
	if near := suggest.Nearest(name, slices.Values(known)); near != "" {
		return near
	}
	goesOn := func(k string) bool { return len(name) > 1 && strings.HasPrefix(k, name) }
	i := slices.IndexFunc(known, goesOn)
	if i < 0 || slices.ContainsFunc(known[i+1:], goesOn) {
		return ""
	}
	return known[i]
}
