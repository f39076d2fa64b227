package main

import (
	"cmp"
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
	Passes       []passDoc            `json:"passes" doc:"The passes in their order, and what each did."`
	Copies       stream[copyDoc]      `json:"copies" doc:"The copies that were inserted."`
	Elided       stream[elisionDoc]   `json:"elided" doc:"The nodes that were found to be needless."`
	Folded       stream[foldingDoc]   `json:"folded" doc:"The nodes that were computed ahead: they depend on constants alone."`
	Decomposed   stream[partsDoc]     `json:"decomposed" doc:"The nodes of composite ops, for which others run."`
	Packed       stream[packingDoc]   `json:"packed" doc:"The constants in the form of an implementation."`
	Unchecked    stream[uncheckedDoc] `json:"unchecked,omitzero" doc:"What --check could not compare."`
	Steps        stream[stepDoc]      `json:"steps" doc:"What runs, in a valid order."`
	PeakBytes    int                  `json:"peak_bytes" doc:"Memory beside inputs and constants."`
	Memory       memoryDoc            `json:"memory" doc:"What a run needs in all."`
	PlanMS       float64              `json:"plan_ms" doc:"The time of planning and compiling."`
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

type passDoc struct {
	Pass  string  `json:"pass" doc:"The name of the pass."`
	Doc   string  `json:"doc" doc:"What the pass does."`
	Did   string  `json:"did" doc:"What it did to this graph, in a few words; empty for nothing."`
	Nodes int     `json:"nodes" doc:"The nodes that the graph has after it."`
	MS    float64 `json:"ms" doc:"The time that it took, in milliseconds."`
}

type foldingDoc struct {
	Node  string `json:"node" doc:"The node that was computed ahead."`
	Op    string `json:"op" doc:"The op of the node."`
	Bytes int    `json:"bytes" doc:"The size of its results; 0 for a view."`
	Why   string `json:"why,omitzero" doc:"Of a node that a pass inserted, why it did."`
}

type partsDoc struct {
	Node string   `json:"node" doc:"The node of a composite op."`
	Op   string   `json:"op" doc:"The op of the node."`
	Into []string `json:"into" doc:"The nodes that run in its place."`
}

type packingDoc struct {
	Value   string   `json:"value" doc:"The packed constant."`
	Of      string   `json:"of" doc:"The constant that it was made of."`
	Form    string   `json:"form" doc:"The form, in words."`
	Bytes   int      `json:"bytes" doc:"The size of the packed constant."`
	Readers []string `json:"readers" doc:"The nodes that read it."`
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

func planReportOf(p *planned, f planFlags) *planReport {
	r := &planReport{Strategy: p.plan.Strategy, CostNS: p.plan.CostNS, PeakBytes: p.program.PeakBytes(),
		Memory: memoryOf(p.program.Need()), PlanMS: milliseconds(p.took), notes: notesOf(p.plan.Graph),
		need: p.program.Need()}
	r.Copies = streamOf(p.plan.Copies, func(c passes.Copy) copyDoc {
		return copyDoc{c.Value, filled(c.From), filled(c.To), c.Bytes, c.CostNS, c.Why}
	})
	r.Elided = streamOf(p.plan.Elided, func(e passes.Elision) elisionDoc { return elisionDoc{e.Node, e.Why} })
	for _, d := range p.plan.Passes {
		r.Passes = append(r.Passes, passDoc{d.Name, d.Doc, d.Did, d.Nodes, milliseconds(d.Took)})
	}
	r.Folded = streamOf(p.plan.Folded, func(f passes.Folding) foldingDoc {
		return foldingDoc{f.Node, f.Op, f.Bytes, f.Why}
	})
	r.Decomposed = streamOf(p.plan.Decomposed, func(d passes.Decomposition) partsDoc {
		return partsDoc{d.Node, d.Op, filled(d.Into)}
	})
	r.Packed = streamOf(p.plan.Packed, func(c passes.Packing) packingDoc {
		return packingDoc{c.Value, c.Of, c.Form, c.Bytes, filled(c.Readers)}
	})
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
	copies, elided, folded, steps := r.Copies.all(), r.Elided.all(), r.Folded.all(), r.Steps.all()
	copied := 0
	for _, c := range copies {
		copied += c.Bytes
	}
	fmt.Fprintf(w, "strategy %s: %s, %s inserted (%s), %s elided, %s folded\n", r.Strategy, count(len(steps), "step"),
		countIrregular(len(copies), "copy", "copies"), byteSize(copied), count(len(elided), "node"),
		count(len(folded), "node"))
	took := time.Duration(r.PlanMS * float64(time.Millisecond)).Round(time.Microsecond)
	fmt.Fprintf(w, "estimated cost %s, peak memory %s beside inputs and constants, planned in %s\n",
		nanoseconds(r.CostNS), byteSize(r.PeakBytes), took)
	writeList(w, show, "Inserted copies", copies, []column{nameCol("value"), listCol("from"), listCol("to"),
		wholeCol("bytes"), wholeCol("cost"), proseCol("why")}, func(c copyDoc) []any {
		return []any{c.Value, ints(c.From), ints(c.To), c.Bytes, nanoseconds(c.CostNS), c.Why}
	})
	writeList(w, show, "Elided nodes", elided, []column{nameCol("node"), proseCol("why")},
		func(e elisionDoc) []any { return []any{e.Node, e.Why} })
	writeList(w, show, "Folded nodes", folded, []column{nameCol("node"), nameCol("op"), wholeCol("bytes"),
		proseCol("why")}, func(f foldingDoc) []any {
		return []any{f.Node, f.Op, byteSize(f.Bytes), cmp.Or(f.Why, "it depends on constants alone")}
	})
	writeList(w, show, "Composite nodes", r.Decomposed.all(), []column{nameCol("node"), nameCol("op"),
		proseCol("stated as")}, func(d partsDoc) []any { return []any{d.Node, d.Op, strings.Join(d.Into, ", ")} })
	writeSteps(w, show, steps)
	writeList(w, show, "Packed constants", r.Packed.all(), []column{nameCol("constant"), proseCol("form"),
		wholeCol("bytes"), nameCol("readers")}, func(c packingDoc) []any {
		return []any{c.Of, c.Form, byteSize(c.Bytes), strings.Join(c.Readers, ", ")}
	})
	writeList(w, show, "Passes", r.Passes, []column{nameCol("pass"), wholeCol("nodes"), wholeCol("took"), proseCol("did")},
		func(p passDoc) []any {
			return []any{p.Pass, p.Nodes, nanoseconds(p.MS * 1e6), cmp.Or(p.Did, "nothing")}
		})
	writeMemory(w, show, r.need)
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
