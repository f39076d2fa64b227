package view

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/sorted"
)

// distinct shortens names to a width. A shortened name keeps the characters in which it differs from the most similar
// names. Different names therefore stay different if the width permits. For example, with a width of 12, the names
// encoder.layers.3.attention.weight and encoder.layers.4.attention.weight become …yers.3.att… and …yers.4.att….
func distinct(names []string, width int) []string {
	reversedNames := make([]string, len(names))
	for i, name := range names {
		reversedNames[i] = reversed(name)
	}
	before, after := sharedPrefixes(names), sharedPrefixes(reversedNames)
	list, owners := make([]string, len(names)), map[string]string{} // owners maps a shortened name to its name
	for i, name := range names {
		list[i] = shortenName(name, before[name], after[reversedNames[i]], width)
		isFree := func(short string) bool { return owners[short] == "" || owners[short] == name }
		if !isFree(list[i]) {
			list[i] = lastFreeWindow(name, list[i], width, isFree)
		}
		owners[list[i]] = name
	}
	return list
}

// lastFreeWindow shortens a name to a part of `width` columns that satisfies isFree, as near to the end of the name as
// possible. It returns `otherwise` if there is none, or if some characters do not take one column.
func lastFreeWindow(name, otherwise string, width int, isFree func(short string) bool) string {
	runes := []rune(name)
	if term.Width(name) != len(runes) || len(runes) <= width || width < 3 {
		return otherwise
	}
	for end := len(runes); end >= width; end-- {
		window := term.Ellipsis + string(runes[end-width+1:end])
		if end < len(runes) {
			window = term.Ellipsis + string(runes[end-width+1:end-1]) + term.Ellipsis
		}
		if isFree(window) {
			return window
		}
	}
	return otherwise
}

// shortenName shortens a name to width columns. The first `before` and the last `after` characters of the name are
// shared with other names; the characters between them differ. shortenName removes the middle if the differing
// characters are near an end. Otherwise it keeps the differing characters and their neighbours. In the example of
// distinct, the digit differs: 15 characters precede it, and 17 follow.
func shortenName(name string, before, after, width int) string {
	runes := []rune(name)
	length := len(runes)
	from, upTo := before, max(length-after, before+1) // the characters [from, upTo) differ
	halfWidth := (width - 1) / 2
	isNearEnd := from < halfWidth || upTo > length-halfWidth
	hasWideCharacters := term.Width(name) != length // or characters without a column
	if term.Width(name) <= width || hasWideCharacters || isNearEnd {
		return term.CutMiddle(name, width) // a name that fits stays unchanged
	}
	const ellipses = 2 // columns: an ellipsis at each end
	upTo = min(upTo, from+width-ellipses)
	// Extend left and right in turn. Neither end of the name is reached, because isNearEnd is false.
	for extendLeft := true; upTo-from+ellipses < width; extendLeft = !extendLeft {
		if extendLeft {
			from--
		} else {
			upTo++
		}
	}
	return term.Ellipsis + string(runes[from:upTo]) + term.Ellipsis
}

// sharedPrefixes maps each name to the length of the longest prefix that it shares with another name.
func sharedPrefixes(names []string) map[string]int {
	names = slices.Clone(names)
	sorted.Strings(names)
	names = slices.Compact(names) // the longest prefix is now shared with the previous or the next name
	shared := map[string]int{}
	for k := 1; k < len(names); k++ {
		a, b := []rune(names[k-1]), []rune(names[k])
		length := 0
		for length < min(len(a), len(b)) && a[length] == b[length] {
			length++
		}
		for _, name := range names[k-1 : k+1] {
			shared[name] = max(shared[name], length)
		}
	}
	return shared
}

func reversed(text string) string {
	runes := []rune(text)
	slices.Reverse(runes)
	var b strings.Builder
	for _, r := range runes {
		b.WriteRune(r)
	}
	return b.String()
}
