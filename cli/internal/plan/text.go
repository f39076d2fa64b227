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

// writePlan prints the plan as text.
func writePlan(w io.Writer, show term.Display, r *Document, need graphrun.Need) {
	exact := ""
	if r.Exact {
		exact = ", exact"
	}
	fmt.Fprintf(w, "strategy %s%s: %s, %s inserted (%s), %s elided, %s folded\n", r.Strategy, exact,
		format.Count(len(r.Steps), "step"),
		format.CountIrregular(len(r.Copies), "copy",
			"copies"), format.Bytes(r.Costs().CopiedBytes), format.Count(len(r.Elided), "node"),
		format.Count(len(r.Folded), "node"))
	took := time.Duration(r.PlanMS * float64(time.Millisecond)).Round(time.Microsecond)
	fmt.Fprintf(w, "estimated cost %s, peak memory %s beside inputs and constants, planned in %s\n",
		format.Nanoseconds(r.CostNS), format.Bytes(r.PeakBytes), took)
	sections.WriteBound(w, &r.Plan)
	writeProblemResults(w, show, r)
	fmt.Fprintf(w, "priced by %s\n", sections.PricedBy(r.Profile))
	if r.NoCode != "" {
		fmt.Fprintf(w, "no machine code: %s; all loops run in Go\n", r.NoCode)
	}
	writeMeasured(w, r.Measured)
	writeClasses(w, show, r.Classes)
	writeForAll(w, show, r.ForAll)
	sections.WriteSegments(w, show, r.Segments)
	sections.WriteCopies(w, show, "Inserted copies", r.Copies)
	term.WriteList(w, show, "Elided nodes", r.Elided, []term.Column{term.NameCol("node"), term.ProseCol("why")},
		func(e report.Elision) []any { return []any{e.Node, e.Why} })
	term.WriteList(w, show, "Written in place", r.Placed, []term.Column{term.NameCol("value"), term.NameCol("within"),
		term.WholeCol("bytes"),
		term.WholeCol("saved")}, func(v report.Placed) []any {
		return []any{v.Value, v.Within, format.Bytes(v.Bytes), format.Nanoseconds(v.SavedNS)}
	})
	term.WriteList(w, show, "Folded nodes", r.Folded, []term.Column{term.NameCol("node"), term.NameCol("op"),
		term.WholeCol("bytes"),
		term.ProseCol("why")}, func(f report.Folding) []any {
		return []any{f.Node, f.Op, format.Bytes(f.Bytes), cmp.Or(f.Why, "it depends on constants alone")}
	})
	term.WriteList(w, show, "Composite nodes", r.Decomposed,
		[]term.Column{term.NameCol("node"), term.NameCol("op"), term.ProseCol("stated as"),
			term.ProseCol("why")}, func(d report.Decomposition) []any {
			return []any{d.Node, d.Op, strings.Join(d.Into, ", "), cmp.Or(d.Why, "it is composite")}
		})
	writeSteps(w, show, r.Steps)
	sections.WriteUnfused(w, show, r.Unfused)
	term.WriteList(w, show, "Packed constants", r.Packed, []term.Column{term.NameCol("constant"), term.ProseCol("form"),
		term.WholeCol("bytes"), term.NameCol("readers")}, func(c report.Packing) []any {
		return []any{c.Of, c.Form, format.Bytes(c.Bytes), strings.Join(c.Readers, ", ")}
	})
	term.WriteList(w, show, "Packed in every run", r.PackedInRuns,
		[]term.Column{term.NameCol("operand"), term.ProseCol("form"),
			term.NameCol("reader")}, func(c report.RunPacking) []any { return []any{c.Value, c.Form, c.Node} })
	term.WriteList(w, show, "Passes", r.Passes, []term.Column{term.NameCol("pass"), term.WholeCol("nodes"),
		term.WholeCol("took"), term.ProseCol("did")},
		func(p report.Pass) []any {
			return []any{p.Pass, p.Nodes, format.Nanoseconds(p.MS * 1e6), cmp.Or(p.Did, "nothing")}
		})
	sections.WriteMemory(w, show, need)
}

func writeSteps(w io.Writer, show term.Display, steps []report.Step) {
	fmt.Fprintln(w, "\n"+show.Paint(term.Strong, "Steps"))
	columns := []term.Column{term.NameCol("name"), term.NameCol("ops"), term.WholeCol("impl").IfRoom(),
		term.ListCol("strides"),
		term.WholeCol("buffer").IfRoom(), term.WholeCol("cost"), term.WholeCol("measured"),
		term.WholeCol("fast set-up").Unless("none").IfRoom(), term.PhraseCol("loop", 24)}
	const measuredColumn = 6 // index of the measured time
	measured := slices.ContainsFunc(steps, func(d report.Step) bool { return d.MeasuredNS != nil })
	if !measured {
		columns = slices.Delete(columns, measuredColumn, measuredColumn+1)
	}
	t := term.NewTable(columns...)
	for _, d := range steps {
		ops := d.Op
		if ops == "" {
			ops = strings.Join(d.Ops, "+")
		}
		cells := []any{d.Name, ops, d.Impl, format.Ints(d.Strides), d.Buffer, format.Nanoseconds(d.CostNS),
			measuredText(d.MeasuredNS),
			d.FastSetup, loopText(d.Loop)}
		if !measured {
			cells = slices.Delete(cells, measuredColumn, measuredColumn+1)
		}
		t.Add(cells...)
	}
	t.Write(w, show)
}

// measuredText formats a measured time, or returns a dash for nil.
func measuredText(ns *float64) string {
	if ns == nil {
		return "-"
	}
	return format.Nanoseconds(*ns)
}

func loopText(l *report.Loop) string {
	if l == nil {
		return "-"
	}
	parts := []string{format.Ints(l.Shape), "by"}
	for _, st := range l.Strides {
		parts = append(parts, format.Ints(st))
	}
	return strings.Join(parts, " ")
}
