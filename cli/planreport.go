package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/report"
)

// writePlan prints the plan for a reader.
func writePlan(w io.Writer, show display, r *planDoc, need graphrun.Need) {
	exact := ""
	if r.Exact {
		exact = ", exact"
	}
	fmt.Fprintf(w, "strategy %s%s: %s, %s inserted (%s), %s elided, %s folded\n", r.Strategy, exact,
		count(len(r.Steps), "step"),
		countIrregular(len(r.Copies), "copy", "copies"), byteSize(r.Costs().CopiedBytes), count(len(r.Elided), "node"),
		count(len(r.Folded), "node"))
	took := time.Duration(r.PlanMS * float64(time.Millisecond)).Round(time.Microsecond)
	fmt.Fprintf(w, "estimated cost %s, peak memory %s beside inputs and constants, planned in %s\n",
		nanoseconds(r.CostNS), byteSize(r.PeakBytes), took)
	writeBound(w, &r.Plan)
	writeStudy(w, show, r)
	fmt.Fprintf(w, "priced by %s\n", pricedBy(r.Profile))
	if r.NoCode != "" {
		fmt.Fprintf(w, "no machine code: %s; all loops run in Go\n", r.NoCode)
	}
	writeMeasured(w, r.Measured)
	writeClasses(w, show, r.Classes)
	writeForAll(w, show, r.ForAll)
	writeSegments(w, show, r.Segments)
	writeCopies(w, show, "Inserted copies", r.Copies)
	writeList(w, show, "Elided nodes", r.Elided, []column{nameCol("node"), proseCol("why")},
		func(e report.Elision) []any { return []any{e.Node, e.Why} })
	writeList(w, show, "Written in place", r.Placed, []column{nameCol("value"), nameCol("within"), wholeCol("bytes"),
		wholeCol("saved")}, func(v report.Placed) []any {
		return []any{v.Value, v.Within, byteSize(v.Bytes), nanoseconds(v.SavedNS)}
	})
	writeList(w, show, "Folded nodes", r.Folded, []column{nameCol("node"), nameCol("op"), wholeCol("bytes"),
		proseCol("why")}, func(f report.Folding) []any {
		return []any{f.Node, f.Op, byteSize(f.Bytes), cmp.Or(f.Why, "it depends on constants alone")}
	})
	writeList(w, show, "Composite nodes", r.Decomposed, []column{nameCol("node"), nameCol("op"), proseCol("stated as"),
		proseCol("why")}, func(d report.Decomposition) []any {
		return []any{d.Node, d.Op, strings.Join(d.Into, ", "), cmp.Or(d.Why, "it is composite")}
	})
	writeSteps(w, show, r.Steps)
	writeApart(w, show, r.Apart)
	writeList(w, show, "Packed constants", r.Packed, []column{nameCol("constant"), proseCol("form"),
		wholeCol("bytes"), nameCol("readers")}, func(c report.Packing) []any {
		return []any{c.Of, c.Form, byteSize(c.Bytes), strings.Join(c.Readers, ", ")}
	})
	writeList(w, show, "Packed in every run", r.PackedInRuns, []column{nameCol("operand"), proseCol("form"),
		nameCol("reader")}, func(c report.RunPacking) []any { return []any{c.Value, c.Form, c.Node} })
	writeList(w, show, "Passes", r.Passes, []column{nameCol("pass"), wholeCol("nodes"), wholeCol("took"), proseCol("did")},
		func(p report.Pass) []any {
			return []any{p.Pass, p.Nodes, nanoseconds(p.MS * 1e6), cmp.Or(p.Did, "nothing")}
		})
	writeMemory(w, show, need)
}

// writeCopies prints copies and why there are.
func writeCopies(w io.Writer, show display, title string, copies []report.Copy) {
	writeList(w, show, title, copies, []column{nameCol("value"), listCol("from"), listCol("to"), wholeCol("bytes"),
		wholeCol("cost"), proseCol("why")}, func(c report.Copy) []any {
		return []any{c.Value, ints(c.From), ints(c.To), c.Bytes, nanoseconds(c.CostNS), c.Why}
	})
}

// writeList prints a table of a list under a title; nothing where it is empty.
func writeList[T any](w io.Writer, show display, title string, list []T, columns []column, row func(T) []any) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\n"+show.paint(strong, title))
	t := newTable(columns...)
	for _, x := range list {
		t.add(row(x)...)
	}
	t.write(w, show)
}

func writeSteps(w io.Writer, show display, steps []report.Step) {
	fmt.Fprintln(w, "\n"+show.paint(strong, "Steps"))
	columns := []column{nameCol("name"), nameCol("ops"), wholeCol("impl").ifRoom(), listCol("strides"),
		wholeCol("buffer").ifRoom(), wholeCol("cost"), wholeCol("measured"),
		wholeCol("fast set-up").unless("none").ifRoom(), phraseCol("loop", 24)}
	const at = 6 // of what was measured
	measured := slices.ContainsFunc(steps, func(d report.Step) bool { return d.MeasuredNS != nil })
	if !measured {
		columns = slices.Delete(columns, at, at+1)
	}
	t := newTable(columns...)
	for _, d := range steps {
		ops := d.Op
		if ops == "" {
			ops = strings.Join(d.Ops, "+")
		}
		cells := []any{d.Name, ops, d.Impl, ints(d.Strides), d.Buffer, nanoseconds(d.CostNS), measuredText(d.MeasuredNS),
			d.FastSetup, loopText(d.Loop)}
		if !measured {
			cells = slices.Delete(cells, at, at+1)
		}
		t.add(cells...)
	}
	t.write(w, show)
}

// measuredText is a time that was measured; a dash where none was.
func measuredText(ns *float64) string {
	if ns == nil {
		return "-"
	}
	return nanoseconds(*ns)
}

func loopText(l *report.Loop) string {
	if l == nil {
		return "-"
	}
	parts := []string{ints(l.Shape), "by"}
	for _, st := range l.Strides {
		parts = append(parts, ints(st))
	}
	return strings.Join(parts, " ")
}
