package fusion

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
)

// OpCounts is the number of operations of an expression, by kind. It is also called the effort of the expression. In
// all fields except Passes and Scans, an operation on elements of 64 bits counts twice. [OpCounts.AddTo] converts it to
// work. For example, (x - reduce max(x)) / sqrt(reduce max(x)) of float32 has the counts Simple 1 (the difference),
// Divide 1, Folds 1, Row 1 (the square root of the maximum) and Passes 1.
type OpCounts struct {
	Simple float64 // instructions for each element
	Divide float64 // divisions, remainders and square roots for each element
	Folds  float64 // folds (reductions of a row), for each element
	Row    float64 // instructions for each row
	Passes float64 // number of folds: each takes one pass over each row
	Scans  float64 // running folds, for each element; they run in Go
}

// EffortOf counts the operations of an expression. Values that depend only on constants and folds count once per row.
func EffortOf(c *expr.Code) (counts OpCounts) {
	if c == nil {
		return counts
	}
	if slices.ContainsFunc(c.Insts, func(inst expr.Inst) bool { return inst.Op.Elementary() }) {
		if expanded, err := expand.Functions(c, expand.Target{}); err == nil {
			c = expanded
		}
	}
	oncePerRow := make([]bool, len(c.Insts)) // by instruction: whether it depends only on constants and folds
	for i, inst := range c.Insts {
		weight := 1.0
		if inst.DType.Size() == 8 {
			weight = 2
		}
		switch inst.Op {
		case expr.Const:
			oncePerRow[i] = true
			continue
		case expr.Load, expr.Position:
			continue
		case expr.Reduce:
			oncePerRow[i] = true
			counts.Folds += weight
			counts.Passes++
			continue
		case expr.Scan:
			counts.Scans++
			continue
		}
		oncePerRow[i] = !slices.ContainsFunc(inst.Operands(), func(v expr.Value) bool { return v >= 0 && !oncePerRow[v] })
		switch {
		case oncePerRow[i]:
			counts.Row += weight
		case inst.Op == expr.Div || inst.Op == expr.Sqrt || inst.Op == expr.Mod:
			counts.Divide += weight
		default:
			counts.Simple += weight
		}
	}
	return counts
}

// AddTo adds the work of a number of elements, and the work of starting a number of rows. The work is counted in units
// of inner kernels ([graph.Rate]), such as [graph.LoopSimple]. A caller that itself adds the work of starting rows or
// runs of columns passes 0 rows.
func (e OpCounts) AddTo(work *graph.Work, elements, rows float64) {
	if work == nil {
		return
	}
	work.Flops += float64(elements * (e.Simple + e.Divide + e.Folds + e.Scans))
	if e.Scans > 0 {
		work.AddUnits(graph.GoSimple, elements*ScanSimple*e.Scans)
	}
	switch {
	case !loops.CodeAvailable():
		work.AddUnits(graph.GoLoop, elements*(e.Simple+e.Divide+e.Folds))
		return
	case e.Folds > 0:
		// Each fold begins once for all rows; addRowLoops adds the work for each row. Folds are assumed not to overlap
		// with memory access. foldKernel selects the second unit if there are several passes.
		work.AddUnoverlapped(e.foldKernel(graph.FoldBegin, graph.MultipassBegin), e.Passes)
		work.AddUnoverlapped(e.foldKernel(graph.FoldElement, graph.MultipassElement), elements*e.Folds)
		// A division takes about as long as two simple instructions.
		work.AddUnoverlapped(e.foldKernel(graph.FoldSimple, graph.MultipassSimple), elements*(e.Simple+2*e.Divide))
		e.addRowLoops(work, elements, rows)
		return
	}
	work.AddUnits(graph.LoopSimple, elements*e.Simple)
	if e.Divide > 0 {
		work.AddUnits(graph.LoopDivide, elements*e.Divide)
	}
}

// ScanSimple is the time that a scan (a running fold) takes per element, in operations of Go code ([graph.GoSimple]).
const ScanSimple = 3.8

// exampleEffort returns the effort of the op's first example. It returns false if there is no example or no expression,
// or if the expression does not compile.
func exampleEffort(op *graph.Op) (counts OpCounts, ok bool) {
	defer func() { _ = recover() }() // functions of a caller's op may panic; calls of the op report the panic
	if code := exampleCode(op); code != nil && code.Compilable() {
		return EffortOf(code), true
	}
	return counts, false
}

// exampleCode returns the expression of the op's first example. It returns nil if the op has no example, or if the
// example has no expression.
func exampleCode(op *graph.Op) *expr.Code {
	if op.Expression == nil && op.Rows == nil || len(op.Examples) == 0 {
		return nil
	}
	example := op.Examples[0]
	attrs, err := op.Schema.Decode(example.Attrs, nil)
	if err != nil {
		return nil
	}
	call := &graph.Call{Attrs: attrs}
	for _, meta := range example.In {
		if !meta.DType.Valid() { // an absent optional operand
			call.In = append(call.In, graph.Arg{})
			continue
		}
		call.In = append(call.In, graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()}))
	}
	results, err := op.Infer(call)
	if err != nil {
		return nil
	}
	for _, result := range results {
		call.Out = append(call.Out, result.Meta())
	}
	if op.Expression != nil {
		code, _ := op.Expression(call)
		return code
	}
	if rows, err := op.Rows(call); err == nil && rows != nil {
		return rows.Code
	}
	return nil
}
