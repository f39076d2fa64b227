package plan

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/inspect"
)

// writeCode prints the generated code of a step.
func writeCode(w io.Writer, display term.Display, code *inspect.StepCode) {
	compiled := 0 // number of loops with machine code
	for _, loop := range code.Loops {
		if loop.Assembly != "" {
			compiled++
		}
	}
	summary := fmt.Sprintf("machine code for %d of %s", compiled, format.Count(len(code.Loops), "loop"))
	if code.Why != "" {
		summary = "no code was generated: " + code.Why
	}
	fmt.Fprintf(w, "step %s: %s; %s\n", format.Printable(code.Step), format.Printable(strings.Join(code.Ops, ", ")), summary)
	for _, loop := range code.Loops {
		writeLoop(w, display, &loop)
	}
}

// writeLoop prints the operands, the expression and the machine code of a loop.
func writeLoop(w io.Writer, display term.Display, loop *inspect.LoopCode) {
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, format.Printable(cmp.Or(loop.Name, "Loop"))))
	t := term.NewTable(term.NameCol("operand"), term.NameCol("dtype"), term.NameCol("access"))
	for i, a := range loop.Results {
		t.Add(fmt.Sprintf("y%d", i), a.DType, a.Access)
	}
	for i, a := range loop.Operands {
		t.Add(fmt.Sprintf("x%d", i), a.DType, a.Access)
	}
	if len(loop.Results)+len(loop.Operands) > 0 {
		t.Write(w, display)
	}
	if loop.Expression != "" {
		fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "For each element"))
		fmt.Fprint(w, loop.Expression)
	}
	for _, f := range loop.Folds { // reductions over a row, as "add of v1"
		fmt.Fprintf(w, "fold: %s\n", f)
	}
	if loop.Assembly == "" {
		fmt.Fprintf(w, "\nThe loop runs in Go: %s\n", loop.Why)
		return
	}
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Code"))
	fmt.Fprint(w, loop.Assembly)
}
