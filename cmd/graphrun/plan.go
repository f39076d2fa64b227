package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/passes"
)

type planFlags struct {
	strategy          string
	json, dump, check bool
	dims, pins        []string
}

func planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what will run under a strategy, and why",
		Long: `Applies a strategy and shows what will run: the copies that were inserted and why, the nodes
that were elided and why, and the steps with their loops, buffers and estimated costs.

Peak memory is that of the arena, the outputs and the scratch of one worker. What a run needs in
all is listed by what it is for: inputs, constants, weights that kernels have packed for
themselves, the arena in which intermediate values take turns, outputs, and the scratch of all
workers.

The implementation that computes a step is one of those that graphrun ops NAME lists; --pin
NODE=impl:NAME forces another.

A loop is the coalesced iteration shape, fastest dimension first; after it, outputs first,
stand the operands' byte strides.`,
		Example: `  graphrun plan examples/models/residual.json
  graphrun plan model.json --strategy channels_last --json
  graphrun plan model.json --pin conv1=channels_last --pin conv2=impl:nchw --pin y=order:0,2,1
  graphrun plan model.json --check --dump`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return plan(cmd, args[0], f)
		}),
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.BoolVar(&f.dump, "dump", false, "print the graph after each pass")
	fl.BoolVar(&f.check, "check", false, "verify the graph after each pass, and its values where the graph is small; what went unchecked is said")
	strategyFlag(cmd, &f.strategy)
	dimFlag(cmd, &f.dims)
	pinFlag(cmd, &f.pins)
	return cmd
}

func plan(cmd *cobra.Command, path string, f planFlags) error {
	if err := checkStrategy(f.strategy); err != nil {
		return err
	}
	j := begin(cmd, filepath.Base(path))
	defer j.end()
	var g *graph.Graph
	if err := j.do(loading, func() (err error) {
		if g, err = loadGraph(path, f.dims); err == nil {
			err = applyPins(g, f.pins)
		}
		return err
	}); err != nil {
		return err
	}
	var p *planned
	var dump bytes.Buffer // it must not mix with the line that shows progress
	err := j.do(planning, func() (err error) {
		o := passes.Options{Strategy: strategyOf(f.strategy), Check: f.check}
		if f.dump {
			o.Dump = &dump
		}
		p, err = prepare(g, o, exec.Options{MemoryLimit: -1}, j.enter) // it may be for another machine
		return err
	})
	j.end()
	if cut := stopped(j.ctx); cut != nil {
		return cut
	}
	tell(cmd, path, g)
	_, _ = dump.WriteTo(dumpTo(cmd, f.json)) // of a plan that fails too
	if err != nil {
		return named(path, err)
	}
	for _, u := range p.plan.Unchecked {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: --check: %v\n", path, u)
	}
	return j.do(printing, func() error {
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		if f.json {
			writePlanJSON(out, p, f)
		} else {
			writePlan(out, shown(cmd), p)
		}
		return out.Flush()
	})
}

type copyDoc struct {
	Value  string  `json:"value"`
	From   []int   `json:"from"`
	To     []int   `json:"to"`
	Bytes  int     `json:"bytes"`
	CostNS float64 `json:"cost_ns"`
	Why    string  `json:"why"`
}

type elisionDoc struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

type uncheckedDoc struct {
	Node    string   `json:"node,omitempty"`
	Op      string   `json:"op,omitempty"`
	Why     string   `json:"why"`
	Outputs []string `json:"outputs"`
}

type loopDoc struct {
	Shape   []int   `json:"shape"`
	Strides [][]int `json:"strides"`
}

type stepDoc struct {
	Name      string   `json:"name"`
	Ops       []string `json:"ops"`
	Impl      string   `json:"impl"`
	Loop      *loopDoc `json:"loop,omitempty"`
	FastSetup string   `json:"fast_setup"`
	CostNS    float64  `json:"cost_ns"`
	Strides   []int    `json:"strides"`
	Buffer    int      `json:"buffer"`
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

// filled makes a nil list empty, for JSON.
func filled[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

func stepOf(p *passes.Plan, s exec.Step) stepDoc {
	d := stepDoc{Name: s.Name, Ops: filled(s.Ops), Loop: loopOf(s.Loop), FastSetup: iter.FastNone.String(),
		Strides: filled(s.Strides), Buffer: s.Buffer}
	if s.Loop != nil {
		d.FastSetup = s.Loop.FastSetup().String()
	}
	if s.Node == nil {
		return d
	}
	d.CostNS = p.Cost(s.Node)
	if s.Node.Impl != nil {
		d.Impl = s.Node.Impl.Name
	}
	return d
}

// writePlanJSON streams the contract's document, an item a line. What went unchecked is in
// it where a check was asked for.
func writePlanJSON(w *bufio.Writer, p *planned, f planFlags) {
	d := newDocument(w)
	d.field("strategy", p.plan.Strategy)
	d.field("optimal", false)
	d.field("cost_ns", p.plan.CostNS)
	d.list("copies", len(p.plan.Copies), func(i int) any {
		c := p.plan.Copies[i]
		return copyDoc{c.Value, filled(c.From), filled(c.To), c.Bytes, c.CostNS, c.Why}
	})
	d.list("elided", len(p.plan.Elided), func(i int) any {
		e := p.plan.Elided[i]
		return elisionDoc{e.Node, e.Why}
	})
	if f.check {
		d.list("unchecked", len(p.plan.Unchecked), func(i int) any {
			u := p.plan.Unchecked[i]
			return uncheckedDoc{u.Node, u.Op, u.Why, filled(u.Outputs)}
		})
	}
	steps := p.program.Steps()
	d.list("steps", len(steps), func(i int) any { return stepOf(p.plan, steps[i]) })
	d.field("peak_bytes", p.program.PeakBytes())
	d.field("memory", memoryOf(p.program.Need()))
	d.field("plan_ms", milliseconds(p.took))
	d.told(p.plan.Graph)
	d.end()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// writePlan prints the plan for a reader.
func writePlan(w io.Writer, show display, p *planned) {
	steps := p.program.Steps()
	fmt.Fprintf(w, "strategy %s: %s, %s inserted (%s), %s elided\n", p.plan.Strategy, count(len(steps), "step"),
		countIrregular(len(p.plan.Copies), "copy", "copies"), byteSize(p.copyBytes()), count(len(p.plan.Elided), "node"))
	fmt.Fprintf(w, "estimated cost %s, peak memory %s beside inputs and constants, planned in %s\n",
		nanoseconds(p.plan.CostNS), byteSize(p.program.PeakBytes()), p.took.Round(time.Microsecond))
	if len(p.plan.Copies) > 0 {
		fmt.Fprintln(w, "\n"+show.paint(strong, "Inserted copies"))
		t := newTable(nameCol("value"), listCol("from"), listCol("to"), wholeCol("bytes"), wholeCol("cost"),
			proseCol("why"))
		for _, c := range p.plan.Copies {
			t.add(c.Value, ints(c.From), ints(c.To), c.Bytes, nanoseconds(c.CostNS), c.Why)
		}
		t.write(w, show)
	}
	if len(p.plan.Elided) > 0 {
		fmt.Fprintln(w, "\n"+show.paint(strong, "Elided nodes"))
		t := newTable(nameCol("node"), proseCol("why"))
		for _, e := range p.plan.Elided {
			t.add(e.Node, e.Why)
		}
		t.write(w, show)
	}
	fmt.Fprintln(w, "\n"+show.paint(strong, "Steps"))
	t := newTable(nameCol("name"), nameCol("ops"), wholeCol("impl").ifRoom(), listCol("strides"), wholeCol("buffer").ifRoom(), wholeCol("cost"),
		wholeCol("fast set-up").unless("none").ifRoom(), phraseCol("loop", 24))
	for _, s := range steps {
		d := stepOf(p.plan, s)
		t.add(d.Name, opNames(s), d.Impl, ints(d.Strides), d.Buffer, nanoseconds(d.CostNS), d.FastSetup, loopText(d.Loop))
	}
	t.write(w, show)
	writeMemory(w, show, p.program.Need())
}

// opNames lists the ops of a step's nodes, by the node names where there are several.
func opNames(s exec.Step) string {
	if len(s.Ops) <= 1 && s.Node != nil {
		return s.Node.Op.Name
	}
	return strings.Join(s.Ops, "+")
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
