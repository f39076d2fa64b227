package plan

import (
	"fmt"
	"io"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/program"
)

// A class of sizes is the set of sizes that one plan serves: all sizes that satisfy the guards (conditions) of the
// plan. An [inspect.Specialization] describes the class and its plan. Holds[i] is the text of guard i, such as N >= 2,
// and Guards[i] its origin, such as the node that requires it. The regret of the plan at some sizes is its additional
// cost, relative to a plan made for these sizes.
//
// An [inspect.Proof] is the result of the attempt to prove, for all sizes, a property of plans, such as no-copies. The
// proof is divided into cases. A case has all sizes that satisfy certain conditions.

// writeClasses prints the plans for symbolic sizes: for each plan its guards, and its costs at other sizes.
func writeClasses(w io.Writer, display term.Display, classes []inspect.Specialization) {
	for _, class := range classes {
		fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Plan for "+program.SizesText(class.Hint)+" and sizes like these"))
		writeGuards(w, &class)
		fmt.Fprintf(w, "%s inserted\n", format.CountIrregular(class.Copies, "copy", "copies"))
		if m := class.Memory; m != nil {
			fmt.Fprintf(w, "outputs: %s bytes\nother values: at most %s bytes at the same time\n", m.Outputs, m.AtOnce)
		}
		if len(class.Regret) > 0 {
			regretTable(&class).Write(w, display)
		}
	}
}

// writeGuards prints the guards of a plan.
func writeGuards(w io.Writer, class *inspect.Specialization) {
	switch {
	case class.Unknown != "":
		fmt.Fprintf(w, "the guards are unknown: %s\n", format.Printable(class.Unknown))
	case len(class.Holds) == 0:
		fmt.Fprintln(w, "holds for all sizes: there is no guard")
	default:
		fmt.Fprintf(w, "holds while (%s)\n", format.Count(len(class.Holds), "guard"))
		for i, cond := range class.Holds {
			fmt.Fprintf(w, "  %s\n", format.Printable(cond+guardOrigin(class.Guards[i])))
		}
	}
}

// regretTable returns a table of the costs of a plan. Each row has the costs at one combination of sizes. The remark of
// a row, Choice, says why these sizes were chosen, such as "least" or "greatest".
func regretTable(class *inspect.Specialization) *term.Table {
	t := term.NewTable(term.NameCol("at"), term.UntruncatedCol("cost"), term.UntruncatedCol("cost if planned anew"),
		term.UntruncatedCol("regret"), term.UntruncatedCol("memory"), term.ProseCol("remark"))
	for _, regret := range class.Regret {
		if !regret.Fits {
			t.Add(program.SizesText(regret.Sizes), "-", "-", "-", "-",
				regret.Choice+"; another plan serves these sizes, which violate the guards of this plan")
			continue
		}
		memory := "-"
		if regret.Bytes != nil {
			memory = format.Bytes(*regret.Bytes)
		}
		t.Add(program.SizesText(regret.Sizes), format.Nanoseconds(regret.CostNS), format.Nanoseconds(regret.BestNS),
			fmt.Sprintf("%.1f%%", 100*regret.Regret), memory, regret.Choice)
	}
	return t
}

// guardOrigin returns the text after the condition of a guard: the node that requires the condition, and the symbols
// whose sizes the condition fixes.
func guardOrigin(g inspect.Guard) string {
	text := ""
	if g.Node != "" {
		text = fmt.Sprintf(", required by %s (%s)", g.Node, g.Op)
	}
	if len(g.Binds) > 0 {
		text += "; the condition fixes " + strings.Join(g.Binds, ", ")
	}
	return text
}

// writeForAll prints the proofs of --for-all, each with its cases.
func writeForAll(w io.Writer, display term.Display, list []inspect.Proof) {
	for _, proof := range list {
		fmt.Fprintln(w, "\n"+display.Paint(term.Strong, proof.Property+" for all sizes"))
		fmt.Fprintln(w, format.Printable(proofText(&proof)))
		if proof.Counterexample != nil {
			continue
		}
		printed := map[string]bool{} // several cases may have the same conditions
		for _, c := range proof.Cases {
			if cond := caseText(c); !printed[cond] {
				printed[cond] = true
				fmt.Fprintf(w, "  %s\n", format.Printable(cond))
			}
		}
	}
}

// caseText returns the conditions c.Holds of a case in one line. A condition that is a disjunction is in parentheses.
func caseText(c inspect.Case) string {
	cond := "all sizes"
	switch len(c.Holds) {
	case 0: // no condition
	case 1:
		cond = c.Holds[0]
	default:
		all := make([]string, len(c.Holds))
		for i, h := range c.Holds {
			all[i] = h
			if strings.Contains(h, " | ") {
				all[i] = "(" + h + ")"
			}
		}
		cond = strings.Join(all, " & ")
	}
	if c.Refused {
		cond += " (the graph rejects these sizes)"
	}
	return cond
}

// maxShown is the maximum number of combinations of sizes in one line.
const maxShown = 8

// triedSizes lists the combinations of sizes at which a property was tested.
func triedSizes(tried []map[string]int) string {
	var list []string
	for _, sizes := range tried[:min(len(tried), maxShown)] {
		list = append(list, program.SizesText(sizes))
	}
	more := ""
	if n := len(tried) - len(list); n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return fmt.Sprintf("all %d sizes tried (%s%s)", len(tried), strings.Join(list, "; "), more)
}
