package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/graphrun/graphrun"
)

// writePlan prints the plan for a reader.
func writePlan(w io.Writer, show display, r *graphrun.Report, need graphrun.Need) {
	copies, elided, steps := r.Copies, r.Elided, r.Steps
	fmt.Fprintf(w, "strategy %s: %s, %s inserted (%s), %s elided\n", r.Strategy, count(len(steps), "step"),
		countIrregular(len(copies), "copy", "copies"), byteSize(copiedBytes(r)), count(len(elided), "node"))
	took := time.Duration(r.PlanMS * float64(time.Millisecond)).Round(time.Microsecond)
	fmt.Fprintf(w, "estimated cost %s, peak memory %s beside inputs and constants, planned in %s\n",
		nanoseconds(r.CostNS), byteSize(r.PeakBytes), took)
	writeSegments(w, show, r.Segments)
	if len(copies) > 0 {
		fmt.Fprintln(w, "\n"+show.paint(strong, "Inserted copies"))
		t := newTable(nameCol("value"), listCol("from"), listCol("to"), wholeCol("bytes"), wholeCol("cost"),
			proseCol("why"))
		for _, c := range copies {
			t.add(c.Value, ints(c.From), ints(c.To), c.Bytes, nanoseconds(c.CostNS), c.Why)
		}
		t.write(w, show)
	}
	if len(elided) > 0 {
		fmt.Fprintln(w, "\n"+show.paint(strong, "Elided nodes"))
		t := newTable(nameCol("node"), proseCol("why"))
		for _, e := range elided {
			t.add(e.Node, e.Why)
		}
		t.write(w, show)
	}
	writeSteps(w, show, steps)
	writeMemory(w, show, need)
}

// copiedBytes is the total size of the copies that were inserted.
func copiedBytes(r *graphrun.Report) int {
	n := 0
	for _, c := range r.Copies {
		n += c.Bytes
	}
	return n
}

func writeSteps(w io.Writer, show display, steps []graphrun.StepReport) {
	fmt.Fprintln(w, "\n"+show.paint(strong, "Steps"))
	t := newTable(nameCol("name"), nameCol("ops"), wholeCol("impl").ifRoom(), listCol("strides"), wholeCol("buffer").ifRoom(), wholeCol("cost"),
		wholeCol("fast set-up").unless("none").ifRoom(), phraseCol("loop", 24))
	for _, d := range steps {
		ops := d.Op
		if ops == "" {
			ops = strings.Join(d.Ops, "+")
		}
		t.add(d.Name, ops, d.Impl, ints(d.Strides), d.Buffer, nanoseconds(d.CostNS), d.FastSetup, loopText(d.Loop))
	}
	t.write(w, show)
}

func loopText(l *graphrun.LoopReport) string {
	if l == nil {
		return "-"
	}
	parts := []string{ints(l.Shape), "by"}
	for _, st := range l.Strides {
		parts = append(parts, ints(st))
	}
	return strings.Join(parts, " ")
}
