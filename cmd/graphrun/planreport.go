package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/passes"
)

// planReport is what plan prints.
type planReport struct {
	Strategy     string               `json:"strategy" doc:"The strategy that was applied."`
	Optimal      bool                 `json:"optimal" doc:"Whether it is proved that no plan costs less."`
	CostNS       float64              `json:"cost_ns" doc:"Its estimated cost, in nanoseconds."`
	LowerBoundNS *float64             `json:"lower_bound_ns" doc:"What any plan costs at least; null where unknown."`
	Copies       stream[copyDoc]      `json:"copies" doc:"The copies that were inserted."`
	Elided       stream[elisionDoc]   `json:"elided" doc:"The nodes that were found to be needless."`
	Unchecked    stream[uncheckedDoc] `json:"unchecked,omitzero" doc:"What --check could not compare."`
	Steps        stream[stepDoc]      `json:"steps" doc:"What runs, in a valid order."`
	PeakBytes    int                  `json:"peak_bytes" doc:"Memory beside inputs and constants."`
	Memory       memoryDoc            `json:"memory" doc:"What a run needs in all."`
	PlanMS       float64              `json:"plan_ms" doc:"The time of planning and compiling."`
	Segments     []segmentDoc         `json:"segments,omitzero" doc:"In what it runs if data decide shapes."`
	notes
	need exec.Need
}

type copyDoc struct {
	Value  string  `json:"value" doc:"The value that is copied."`
	From   []int   `json:"from" doc:"Its strides, in elements."`
	To     []int   `json:"to" doc:"The strides of the copy, in elements."`
	Bytes  int     `json:"bytes" doc:"The size of the copy."`
	CostNS float64 `json:"cost_ns" doc:"What the copy is estimated to cost, in nanoseconds."`
	Why    string  `json:"why" doc:"What wants the copy."`
}

type elisionDoc struct {
	Node string `json:"node" doc:"The node that does not run."`
	Why  string `json:"why" doc:"Why it need not."`
}

type uncheckedDoc struct {
	Node    string   `json:"node,omitzero" doc:"The node because of which nothing was compared."`
	Op      string   `json:"op,omitzero" doc:"The op of the node."`
	Why     string   `json:"why" doc:"Why it could not be compared."`
	Outputs []string `json:"outputs" doc:"The outputs that went unchecked."`
}

type loopDoc struct {
	Shape   []int   `json:"shape" doc:"The coalesced shape, the fastest dimension first."`
	Strides [][]int `json:"strides" doc:"For each operand, outputs first, its strides in bytes, in the same order."`
}

type stepDoc struct {
	Name      string   `json:"name" doc:"The name of the step."`
	Ops       []string `json:"ops" doc:"The nodes that it computes."`
	Op        string   `json:"op,omitzero" doc:"The op of the node where it computes one."`
	Impl      string   `json:"impl,omitzero" doc:"The implementation of the op that computes it."`
	Loop      *loopDoc `json:"loop,omitzero" doc:"The loop over elements; left out for what is none."`
	FastSetup string   `json:"fast_setup" of:"fast_setup" doc:"TensorIterator's short cut that laid it out."`
	CostNS    float64  `json:"cost_ns" doc:"What the step is estimated to cost, in nanoseconds."`
	Strides   []int    `json:"strides" doc:"Strides of its first output, in elements."`
	Buffer    int      `json:"buffer" doc:"The memory of its first output, by number."`
}

func planReportOf(p *planned, u *unfixed, f planFlags) *planReport {
	r := &planReport{Strategy: p.plan.Strategy, CostNS: p.plan.CostNS, PeakBytes: p.program.PeakBytes(),
		Memory: memoryOf(p.program.Need()), PlanMS: milliseconds(p.took), notes: notesOf(p.plan.Graph),
		need: p.program.Need(), Segments: u.docs()}
	r.Copies = streamOf(p.plan.Copies, func(c passes.Copy) copyDoc {
		return copyDoc{c.Value, filled(c.From), filled(c.To), c.Bytes, c.CostNS, c.Why}
	})
	r.Elided = streamOf(p.plan.Elided, func(e passes.Elision) elisionDoc { return elisionDoc{e.Node, e.Why} })
	if f.check {
		r.Unchecked = streamOf(p.plan.Unchecked, func(u passes.Unchecked) uncheckedDoc {
			return uncheckedDoc{u.Node, u.Op, u.Why, filled(u.Outputs)}
		})
	}
	r.Steps = streamOf(p.program.Steps(), func(s exec.Step) stepDoc { return stepOf(p.plan, s) })
	return r
}

func stepOf(p *passes.Plan, s exec.Step) stepDoc {
	d := stepDoc{Name: s.Name, Ops: filled(s.Ops), Loop: loopOf(s.Loop), FastSetup: iter.FastNone.String(),
		Strides: filled(s.Strides), Buffer: s.Buffer}
	if s.Loop != nil {
		d.FastSetup = s.Loop.FastSetup().String()
	}
	if s.Node != nil {
		d.CostNS = p.Cost(s.Node)
		if s.Node.Impl != nil {
			d.Impl = s.Node.Impl.Name
		}
	}
	if len(s.Ops) == 1 && s.Node != nil {
		d.Op = s.Node.Op.Name
	}
	return d
}

func loopOf(it *iter.Iterator) *loopDoc {
	if it == nil {
		return nil
	}
	d := &loopDoc{Shape: filled(it.WalkShape())}
	for i := range it.Len() {
		d.Strides = append(d.Strides, filled(it.WalkStrides(i)))
	}
	return d
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// writePlan prints the plan for a reader.
func writePlan(w io.Writer, show display, r *planReport) {
	copies, elided, steps := r.Copies.all(), r.Elided.all(), r.Steps.all()
	copied := 0
	for _, c := range copies {
		copied += c.Bytes
	}
	fmt.Fprintf(w, "strategy %s: %s, %s inserted (%s), %s elided\n", r.Strategy, count(len(steps), "step"),
		countIrregular(len(copies), "copy", "copies"), byteSize(copied), count(len(elided), "node"))
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
	writeMemory(w, show, r.need)
}

func writeSteps(w io.Writer, show display, steps []stepDoc) {
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

func loopText(l *loopDoc) string {
	if l == nil {
		return "-"
	}
	parts := []string{ints(l.Shape), "by"}
	for _, st := range l.Strides {
		parts = append(parts, ints(st))
	}
	return strings.Join(parts, " ")
}
