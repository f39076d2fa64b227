package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/report"
)

// writeCode prints what a step runs for a reader.
func writeCode(w io.Writer, show display, c *inspect.StepCode) {
	fmt.Fprintf(w, "step %s: %s\n", c.Step, strings.Join(c.Ops, ", "))
	if c.Why != "" {
		fmt.Fprintf(w, "no code was generated: %s\n", c.Why)
	}
	for _, l := range c.Loops {
		fmt.Fprintln(w, "\n"+show.paint(strong, cmp.Or(l.Name, "Loop")))
		t := newTable(nameCol("operand"), nameCol("dtype"), nameCol("access"))
		for i, a := range l.Results {
			t.add(fmt.Sprintf("y%d", i), a.DType, a.Access)
		}
		for i, a := range l.Operands {
			t.add(fmt.Sprintf("x%d", i), a.DType, a.Access)
		}
		t.write(w, show)
		fmt.Fprintln(w, "\n"+show.paint(strong, "For each element"))
		fmt.Fprint(w, l.Expression)
		for _, f := range l.Folds {
			fmt.Fprintf(w, "fold: %s\n", f)
		}
		if l.Assembly == "" {
			fmt.Fprintf(w, "\nIt runs in Go: %s\n", l.Why)
			continue
		}
		fmt.Fprintln(w, "\n"+show.paint(strong, "Code"))
		fmt.Fprint(w, l.Assembly)
	}
}

// mostApart is how many pairs are printed of those that stayed apart for one reason.
const mostApart = 5

// writeApart prints the pairs of nodes that stayed apart, together those for which there is one reason: of many some,
// and how many there are.
func writeApart(w io.Writer, show display, list []report.Apart) {
	seen, folded := map[string]int{}, []report.Apart{}
	for _, a := range list {
		if seen[a.Why]++; seen[a.Why] <= mostApart {
			folded = append(folded, a)
		}
	}
	slices.SortStableFunc(folded, func(a, b report.Apart) int { return cmp.Compare(seen[a.Why], seen[b.Why]) })
	for i := range folded {
		why := folded[i].Why
		if last := i+1 == len(folded) || folded[i+1].Why != why; last && seen[why] > mostApart {
			folded[i].Why = fmt.Sprintf("%s; so are %d more", why, seen[why]-mostApart)
		}
	}
	writeList(w, show, "Apart", folded, []column{nameCol("node"), nameCol("reader"), proseCol("why")},
		func(a report.Apart) []any { return []any{a.Node, a.Reader, a.Why} })
}
