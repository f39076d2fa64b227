package bench

import (
	"math"
	"testing"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// TestProfileSumsUp tells a profile what a run did and looks at what comes out.
func TestProfileSumsUp(t *testing.T) {
	g := graph.New("", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 1<<16)
	g.Output("y", op.Neg(op.Exp(x)))
	p := newProfile()
	r := &exec.Run{Graph: g, Steps: 2, Workers: 2}
	p.BeginRun(r)
	notes := r.Data.(*runRecord)
	ms := time.Millisecond
	notes.workers[0].steps[0] = stepRecord{first: 1 * ms, last: 3 * ms, busy: 2 * ms, calls: 1}
	notes.workers[1].steps[0] = stepRecord{first: 2 * ms, last: 5 * ms, busy: 3 * ms}
	notes.workers[1].steps[1] = stepRecord{first: 5 * ms, last: 9 * ms, busy: 1 * ms, nested: 3 * ms, calls: 1}
	p.addStep(notes, 0)
	p.addStep(notes, 1)
	sum := p.byGraph[g].currentTimes
	if sum[0] != (stepTime{5 * ms, 4 * ms, 1}) || sum[1] != (stepTime{1 * ms, 1 * ms, 1}) || p.busy[1] != 4*ms {
		t.Errorf("%+v, workers %v", sum, p.busy)
	}
	var d timeDoc
	d.addStep(sum[0], g.Nodes[0].Work(), 0, 1)
	d.setRates(10e6)
	if want := 2. * 4 * (1 << 16) / 4e6; d.GBs == nil || math.Abs(*d.GBs-want) > 1e-9 || d.Share != 0.5 {
		t.Errorf("%v GB/s, want %v; share %v", d.GBs, want, d.Share)
	}
	ops, exp, neg := opsByName(g), g.Nodes[0].Name, g.Nodes[1].Name
	for want, nodes := range map[string][]string{"exp+neg": {exp, neg}, "exp*2+neg+exp": {exp, exp, neg, exp},
		"neg": {exp, "of no node"}} {
		if kind := opLabel(exec.Step{Step: report.Step{Name: "y", Ops: nodes}, Node: g.Nodes[1]}, ops); kind != want {
			t.Errorf("a step of %v is %q, want %q", nodes, kind, want)
		}
	}
}
