package files

import (
	"fmt"
	"strings"
)

// listed bounds the keys that a message lists.
const listed = 12

// Keys tells what a file of several arrays has: "the file has x, y".
func Keys(names []string) string { return "the file has " + List(names) }

// List lists names, of many the first few.
func List(names []string) string {
	switch n := len(names); {
	case n == 0:
		return "nothing"
	case n > listed:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), n-listed)
	}
	return strings.Join(names, ", ")
}
