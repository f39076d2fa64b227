package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// The inner kernels of loops, as profiles name them. Simple: an instruction of a loop of machine code on one element
// of up to 32 bits; Divide: a division or a root. Run: a run of elements in which a broadcast operand stands still;
// Broadcast: to begin a loop of such runs. Turned: an element of an operand that is brought through blocks of tiles.
//
// Folded: an element that is folded; FoldSimple: an instruction of a loop that folds; FoldedRow: a row, of a loop along
// it; FoldedRun: a run of elements of columns side by side, of a loop along those; FoldTail: what is left of a row that
// does not fill registers; FoldBegin: to begin a fold. Swept, SweepSimple and so on: the same where a fold waits for
// another, so that rows are gone over more than once. FoldTurned: an element of an operand that is turned for a loop
// that folds.
//
// GoSimple and GoFunction: by Go code of an op, an operation and a function such as exp. GoLoop: an instruction of a
// loop that is no machine code and is interpreted. Flop: an operation of an op that
// tells no more than their number.
const (
	Simple      = "loop.simple"
	Divide      = "loop.divide"
	Run         = "loop.run"
	Broadcast   = "loop.broadcast"
	Turned      = "loop.turned"
	Folded      = "fold.element"
	FoldSimple  = "fold.simple"
	FoldedRow   = "fold.row"
	FoldedRun   = "fold.run"
	FoldTail    = "fold.tail"
	FoldBegin   = "fold.begin"
	Swept       = "sweep.element"
	SweepSimple = "sweep.simple"
	SweepRow    = "sweep.row"
	SweepRun    = "sweep.run"
	SweepTail   = "sweep.tail"
	SweepBegin  = "sweep.begin"
	FoldTurned  = "fold.turned"
	Flop        = "flop"
	GoSimple    = "go.simple"
	GoFunction  = "go.function"
	GoLoop      = "go.loop"
)

// ScanSimple is about the operations of Go code that a scan takes for an element.
const ScanSimple = 3.8

// Effort is what an expression does: instructions for an element, those that divide, folds, and instructions for a
// row. Folds of 64 bits count twice; Sweeps is how many there are. Scans are running folds, which run in Go.
type Effort struct{ Simple, Divide, Folds, Row, Sweeps, Scans float64 }

// EffortOf counts what an expression does to an element. What depends on constants and folds alone is done once a
// row. Values of 64 bits count twice, since a register holds half as many.
func EffortOf(c *expr.Code) (e Effort) {
	if c == nil {
		return e
	}
	if slices.ContainsFunc(c.Insts, func(i expr.Inst) bool { return i.Op.Elementary() }) {
		if x, err := expand.Functions(c, expand.Target{}); err == nil {
			c = x
		}
	}
	row := make([]bool, len(c.Insts))
	for i, in := range c.Insts {
		each := 1.0
		if in.DType.Size() == 8 {
			each = 2
		}
		switch in.Op {
		case expr.Const:
			row[i] = true
			continue
		case expr.Load, expr.Position:
			continue
		case expr.Reduce:
			row[i] = true
			e.Folds += each
			e.Sweeps++
			continue
		case expr.Scan:
			e.Scans++
			continue
		}
		row[i] = true
		for k, v := range [...]expr.Value{in.A, in.B, in.C} {
			row[i] = row[i] && (k >= in.Op.Args() || v < 0 || row[v])
		}
		switch {
		case row[i]:
			e.Row += each
		case in.Op == expr.Div || in.Op == expr.Sqrt || in.Op == expr.Mod:
			e.Divide += each
		default:
			e.Simple += each
		}
	}
	return e
}

// Do adds what n elements take. Of folds they are in so many rows, along which loops go; 0: what begins rows or runs of
// columns is added by who knows them.
func (e Effort) Do(w *Work, n, rows float64) {
	if w == nil {
		return
	}
	w.Flops += n * (e.Simple + e.Divide + e.Folds + e.Scans)
	if e.Scans > 0 {
		w.Do(GoSimple, n*ScanSimple*e.Scans)
	}
	switch {
	case !loops.Compiles():
		w.Do(GoLoop, n*(e.Simple+e.Divide+e.Folds))
		return
	case e.Folds > 0:
		w.Wait(e.either(FoldBegin, SweepBegin), e.Sweeps)
		w.Wait(e.either(Folded, Swept), n*e.Folds)
		w.Wait(e.either(FoldSimple, SweepSimple), n*(e.Simple+2*e.Divide))
		e.along(w, n, rows)
		return
	}
	w.Do(Simple, n*e.Simple)
	if e.Divide > 0 {
		w.Do(Divide, n*e.Divide)
	}
}

// effort is that of the op's expression for its first example; false: it has none, or runs in Go. Attributes and
// dtypes change little of it.
func (o *Op) effortOf() (Effort, bool) {
	if o.defined == nil {
		return Effort{}, false
	}
	return o.defined.effort()
}

// exampleEffort is that of the op's first example; false where it has none, or it is wrong.
func (o *Op) exampleEffort() (e Effort, ok bool) {
	defer func() { _ = recover() }()
	if c := o.exampleCode(); c != nil && c.Compilable() {
		return EffortOf(c), true
	}
	return e, false
}

// exampleCode is the expression of the op's first example; nil where there is none.
func (o *Op) exampleCode() *expr.Code {
	if !o.elementwise() && o.Rows == nil || len(o.Examples) == 0 {
		return nil
	}
	ex := o.Examples[0]
	attrs, err := o.Schema.Decode(ex.Attrs, nil)
	if err != nil {
		return nil
	}
	c := &Call{Attrs: attrs}
	for _, m := range ex.In {
		if !m.DType.Valid() {
			c.In = append(c.In, Arg{})
			continue
		}
		c.In = append(c.In, Of(&Value{Meta: m, Type: m.Type()}))
	}
	res, err := o.Infer(c)
	if err != nil {
		return nil
	}
	for _, r := range res {
		c.Out = append(c.Out, r.Meta())
	}
	if o.elementwise() {
		code, _ := o.expression(c)
		return code
	}
	if r, err := o.Rows(c); err == nil && r != nil {
		return r.Code
	}
	return nil
}

// doRuns adds what it takes that a loop over a result that lies so has more than one run.
func (c *Call) doRuns(w *Work, lies tensor.Meta) {
	if runs := c.runs(lies); runs > 1 {
		waitRuns(w, runs, float64(lies.Bytes())/runs)
		w.Wait(Broadcast, 1)
	}
}

// wholeRun is how much of a run one takes that fills lines: vectors go on from it to the next, and nothing is left.
const wholeRun = .15

// waitRuns adds what it takes that a loop has so many runs of so many bytes.
func waitRuns(w *Work, n, bytes float64) {
	if math.Mod(bytes, machine.LineBytes) == 0 {
		n *= wholeRun
	}
	w.Wait(Run, n)
}

// runs is the number of runs of a loop over a result that lies so: the fastest dimensions over which each operand
// of the call either lies as the result does or stands still are one run.
func (c *Call) runs(lies tensor.Meta) float64 {
	dims := make([]int, 0, lies.Rank())
	for d, n := range lies.Shape {
		if n > 1 {
			dims = append(dims, d)
		}
	}
	slices.SortFunc(dims, func(a, b int) int { return lies.Strides[a] - lies.Strides[b] })
	length := 1
	for i, d := range dims {
		if i > 0 && !c.alike(dims[i-1], d, lies.Rank()) {
			break
		}
		length *= lies.Shape[d]
	}
	return float64(lies.Numel()) / float64(max(1, length))
}

// alike reports whether each operand stands still over both of two dimensions of a result, or over neither.
func (c *Call) alike(a, b, rank int) bool {
	for _, x := range c.In {
		if x.Kind != TensorArg {
			continue
		}
		if shape := x.Meta().Shape; still(shape, a, rank) != still(shape, b, rank) {
			return false
		}
	}
	return true
}

// still reports whether an operand of a shape is broadcast along a dimension of a result of that rank.
func still(shape []int, d, rank int) bool {
	d -= rank - len(shape)
	return d < 0 || d < len(shape) && shape[d] == 1
}

// smallConst is the bytes up to which a constant is taken to be near: a bias, a scale.
const smallConst = 16 << 10

// Streamed adds the bytes of all operands and results, each once and in order: those of large constants as kept.
func (c *Call) Streamed(w *Work) {
	if c == nil || w == nil {
		return
	}
	for i, a := range c.In {
		if a.Kind != TensorArg {
			continue
		}
		m := a.Meta()
		if bytes := float64(m.Numel() * m.DType.Size()); c.Constant(i) && bytes > smallConst {
			w.Bytes[Kept] += bytes
		} else {
			w.Bytes[Dense] += bytes
		}
	}
	for _, m := range c.Out {
		w.Bytes[Dense] += float64(m.Bytes())
	}
}

func (o *Op) work(c *Call, walk Walk) (w Work) {
	w.Steps = 1
	c.Streamed(&w)
	if len(c.Out) == 0 {
		return w
	}
	n := c.Out[0].Numel()
	if len(c.In) > 0 {
		n = max(n, c.Meta(0).Numel())
	}
	if o.Flops != nil {
		w.Flops = o.Flops(c)
		w.Do(cmp.Or(o.FlopKernel, Flop), w.Flops)
		return w
	}
	if e, ok := o.effortOf(); ok {
		if e.Folds > 0 {
			x := o.foldsOf(c)
			x.work(&w, e, c, walk)
			return w
		}
		e.Do(&w, float64(n), 0)
		c.doRuns(&w, walk.Lay(0, c.Out[0]))
		return w
	}
	each := o.each()
	w.Do(GoSimple, float64(n)*each.Simple)
	w.Do(GoFunction, float64(n)*each.Function)
	w.Flops = float64(n) * (each.Simple + each.Function)
	return w
}

// functionGrain is the grain from which on a pointwise op is held to be a function, which takes some
// nanoseconds an element.
const functionGrain = iter.GrainSize / 4

func (o *Op) each() Each {
	switch p := o.Pointwise; {
	case o.Each != Each{} || o.Flops != nil:
		return o.Each
	case p != nil && p.Grain > 0 && p.Grain <= functionGrain:
		return Each{Function: 1}
	}
	return Each{Simple: 1}
}
