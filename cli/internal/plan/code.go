package plan

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/inspect"
)

// writeCode prints the generated code of a step.
func writeCode(w io.Writer, show term.Display, c *inspect.StepCode) {
	fmt.Fprintf(w, "step %s: %s\n", c.Step, strings.Join(c.Ops, ", "))
	if c.Why != "" {
		fmt.Fprintf(w, "no code was generated: %s\n", c.Why)
	}
	for _, l := range c.Loops {
		fmt.Fprintln(w, "\n"+show.Paint(term.Strong, cmp.Or(l.Name, "Loop")))
		t := term.NewTable(term.NameCol("operand"), term.NameCol("dtype"), term.NameCol("access"))
		for i, a := range l.Results {
			t.Add(fmt.Sprintf("y%d", i), a.DType, a.Access)
		}
		for i, a := range l.Operands {
			t.Add(fmt.Sprintf("x%d", i), a.DType, a.Access)
		}
		t.Write(w, show)
		fmt.Fprintln(w, "\n"+show.Paint(term.Strong, "For each element"))
		fmt.Fprint(w, l.Expression)
		for _, f := range l.Folds {
			fmt.Fprintf(w, "fold: %s\n", f)
		}
		if l.Assembly == "" {
			fmt.Fprintf(w, "\nIt runs in Go: %s\n", l.Why)
			continue
		}
		fmt.Fprintln(w, "\n"+show.Paint(term.Strong, "Code"))
		fmt.Fprint(w, l.Assembly)
	}
}
