package files

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/printable"
)

// maxListed is the maximum number of names in a list.
const maxListed = 12

// KeysMessage returns the end of a message about a missing array: "the file has x, y".
func KeysMessage(names []string) string { return "the file has " + List(names) }

// List joins names by commas. It lists at most the first 12.
func List(names []string) string {
	switch n := len(names); {
	case n == 0:
		return "nothing"
	case n > maxListed:
		return fmt.Sprintf("%s and %d more", printable.Text(strings.Join(names[:maxListed], ", ")), n-maxListed)
	}
	return printable.Text(strings.Join(names, ", "))
}
