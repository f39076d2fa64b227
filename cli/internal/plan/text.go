package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/report"
)

// writePlan prints the plan as text: the answers, and then tables of its parts. need is the memory of a run by purpose.
// Columns differ in how they are fitted to the terminal: see [term.Column].
func writePlan(w io.Writer, display term.Display, answers []string, doc *Document, need graphrun.Need) {
	display.WriteSentences(w, answers...)
	writeTotals(w, display, doc)
	if doc.NoCode != "" {
		fmt.Fprintf(w, "no machine code: %s; all loops run in Go\n", doc.NoCode)
	}
	writeAlternatives(w, display, doc)
	writeClasses(w, display, doc.Classes)
	writeForAll(w, display, doc.ForAll)
	sections.WriteSegments(w, display, doc.Segments)
	sections.WriteCopies(w, display, "Inserted copies", doc.Copies)
	term.WriteList(w, display, "Passes", doc.Passes, []term.Column{term.NameCol("pass"), term.UntruncatedCol("nodes"),
		term.UntruncatedCol("took"), term.ProseCol("did")},
		func(p report.Pass) []any {
			return []any{p.Pass, p.Nodes, format.Nanoseconds(p.MS * 1e6), cmp.Or(p.Did, "nothing")}
		})
	sections.WriteMemory(w, display, need, &doc.Plan)
	writeSteps(w, display, doc.Steps)
	sections.WriteUnfused(w, display, doc.Unfused)
	term.WriteList(w, display, "Elided nodes", doc.Elided, []term.Column{term.NameCol("node"), term.ProseCol("why")},
		func(e report.Elision) []any { return []any{e.Node, e.Why} })
	term.WriteList(w, display, "Written in place", doc.Placed, []term.Column{term.NameCol("value"), term.NameCol("within"),
		term.UntruncatedCol("bytes"), term.UntruncatedCol("saved")},
		func(v report.Placed) []any {
			return []any{v.Value, v.Within, format.Bytes(v.Bytes), format.Nanoseconds(v.SavedNS)}
		})
	writeFolded(w, display, doc)
	term.WriteList(w, display, "Composite nodes", doc.Decomposed, []term.Column{term.NameCol("node"), term.NameCol("op"),
		term.ProseCol("replaced by"), term.ProseCol("why")},
		func(d report.Decomposition) []any {
			return []any{d.Node, d.Op, strings.Join(d.Into, ", "), cmp.Or(d.Why, "it is composite")}
		})
	term.WriteList(w, display, "Packed in every run", doc.PackedInRuns, []term.Column{term.NameCol("operand"),
		term.ProseCol("form"), term.NameCol("reader")},
		func(c report.RunPacking) []any { return []any{c.Value, c.Form, c.Node} })
}

// writeTotals prints the numbers of steps and nodes, the peak memory, the compile time and the profile.
func writeTotals(w io.Writer, display term.Display, doc *Document) {
	compileTime := time.Duration(doc.PlanMS * float64(time.Millisecond)).Round(time.Microsecond)
	fmt.Fprintln(w, format.Wrap(fmt.Sprintf("%s, %s elided, %s folded; peak memory %s beside inputs and constants; "+
		"compiled in %s, including folding\npriced by %s; the cost does not include peak memory or overlap of steps",
		format.Count(len(doc.Steps), "step"), format.Count(len(doc.Elided), "node"), format.Count(len(doc.Folded), "node"),
		format.Bytes(doc.PeakBytes), compileTime, sections.ProfileText(doc.Profile)), display.ProseWidth()))
}

// writeFolded prints the folded nodes, with a row for each op and reason, and the number and size of packed weights.
func writeFolded(w io.Writer, display term.Display, doc *Document) {
	type row struct {
		op, why string
		bytes   int
		nodes   []string
	}
	var rows []*row
	packed, packedBytes := map[string]bool{}, 0 // the set of packed values, and the sum of their sizes
	for _, c := range doc.Packed {
		packed[c.Value] = true
		packedBytes += c.Bytes
	}
	for _, f := range doc.Folded {
		if packed[f.Node] {
			continue
		}
		why := cmp.Or(f.Why, "it depends on constants alone")
		i := slices.IndexFunc(rows, func(r *row) bool { return r.op == f.Op && r.why == why })
		if i < 0 {
			i, rows = len(rows), append(rows, &row{op: f.Op, why: why})
		}
		rows[i].bytes += f.Bytes
		rows[i].nodes = append(rows[i].nodes, f.Node)
	}
	term.WriteList(w, display, "Folded nodes", rows, []term.Column{term.NameCol("op"), term.UntruncatedCol("nodes"),
		term.UntruncatedCol("bytes"), term.NameCol("names"), term.ProseCol("why")}, func(r *row) []any {
		return []any{r.op, len(r.nodes), format.Bytes(r.bytes), format.JoinFirst(r.nodes), r.why}
	})
	if len(packed) > 0 {
		fmt.Fprintf(w, "\n%s packed, %s; --json lists them\n", format.Count(len(packed), "weight"),
			format.Bytes(packedBytes))
	}
}

// writeSteps prints the table of steps. It has a column of measured times if times were measured. The column "fast
// set-up" names the fast path of PyTorch's TensorIterator that a step takes.
func writeSteps(w io.Writer, display term.Display, steps []report.Step) {
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Steps"))
	columns := []term.Column{term.NameCol("name"), term.NameCol("ops"), term.UntruncatedCol("impl").OmitIfNarrow(),
		term.ListCol("strides"), term.UntruncatedCol("buffer").OmitIfNarrow(), term.UntruncatedCol("cost"),
		term.UntruncatedCol("measured"), term.UntruncatedCol("fast set-up").OmitIfAll("none").OmitIfNarrow(),
		term.PhraseCol("loop", 24)} // at least 24 characters wide
	const measuredColumn = 6 // index of the measured time
	measured := slices.ContainsFunc(steps, func(step report.Step) bool { return step.MeasuredNS != nil })
	if !measured {
		columns = slices.Delete(columns, measuredColumn, measuredColumn+1)
	}
	t := term.NewTable(columns...)
	for _, step := range steps {
		ops := step.Op
		if ops == "" {
			ops = strings.Join(step.Ops, "+")
		}
		cells := []any{step.Name, ops, step.Impl, format.Ints(step.Strides), step.Buffer, format.Nanoseconds(step.CostNS),
			measuredText(step.MeasuredNS), step.FastSetup, loopText(step.Loop)}
		if !measured {
			cells = slices.Delete(cells, measuredColumn, measuredColumn+1)
		}
		t.Add(cells...)
	}
	t.Write(w, display)
}

// measuredText formats a measured time, or returns a dash for nil.
func measuredText(ns *float64) string {
	if ns == nil {
		return "-"
	}
	return format.Nanoseconds(*ns)
}

// loopText formats the shape of a loop and the strides of its operands; a dash for no loop.
func loopText(loop *report.Loop) string {
	if loop == nil {
		return "-"
	}
	parts := []string{format.Ints(loop.Shape), "by"}
	for _, strides := range loop.Strides {
		parts = append(parts, format.Ints(strides))
	}
	return strings.Join(parts, " ")
}
