package sections

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/report"
)

// Of many pairs that stayed apart for one reason some are printed, and how many there are.
func TestApartIsFolded(t *testing.T) {
	var list []report.Unfused
	for i := range 100 {
		list = append(list, report.Unfused{Node: fmt.Sprint("n", i), Reader: fmt.Sprint("n", i+1), Why: "many"})
	}
	list = append(list, report.Unfused{Node: "p", Reader: "q", Why: "one"})
	var out bytes.Buffer
	WriteUnfused(&out, term.Display{}, list)
	if text := out.String(); strings.Count(text, "many") != maxUnfused || !strings.Contains(text, "and 95 more") ||
		strings.Count(text, "one") != 1 {
		t.Error(text)
	}
}
