package vector

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// lanesOf translates a loop of primitive operations to the intermediate representation of package lane. The pointers
// are the outputs, the operands and the accumulators, as in [Loop.Run].
func lanesOf(l *expr.Loop) (*lane.Loop, error) {
	loop := &lane.Loop{Totals: l.Totals}
	for _, o := range l.Code.Out {
		loop.Ptrs = append(loop.Ptrs, lane.Ptr{D: o.DType, Kind: lane.Output})
	}
	for k, d := range l.Code.In {
		p := lane.Ptr{D: d, Kind: lane.Operand}
		if l.Scalar[k] {
			p.Kind = lane.RowOperand
		}
		loop.Ptrs = append(loop.Ptrs, p)
	}
	builder := lanesBuilder{code: l.Code, block: &loop.Block, values: make([]lane.Value, len(l.Code.Insts)),
		tables: map[uint64]*[32]float32{}}
	for _, v := range evaluationOrder(l) {
		builder.values[v] = builder.add(l.Code.Insts[v])
	}
	for k, f := range l.Folds {
		loop.Folds = append(loop.Folds, lane.Fold{Op: lane.Op(f.Op), V: loop.Remask(builder.values[f.V], 1),
			Ptr: len(loop.Ptrs)})
		loop.Ptrs = append(loop.Ptrs, lane.Ptr{D: l.DType(k), Kind: lane.Accumulator})
	}
	builder.stores()
	return loop, loop.Check()
}

// lanesBuilder translates the instructions of an [expr.Code] and adds them to a block.
type lanesBuilder struct {
	code   *expr.Code
	block  *lane.Block
	values []lane.Value            // by expr.Value
	tables map[uint64]*[32]float32 // by number
}

// add adds an instruction whose operands are already in the block.
func (b *lanesBuilder) add(i expr.Inst) lane.Value {
	switch i.Op {
	case expr.Const:
		return b.block.Const(i.DType, i.Imm)
	case expr.Load:
		return b.block.Load(len(b.code.Out)+int(i.A), int(i.Imm))
	case expr.Lookup:
		t := b.tables[i.Imm]
		if t == nil {
			table := i.Table()
			t = &table
			b.tables[i.Imm] = t
		}
		return b.block.Lookup(t, b.values[i.A])
	case expr.Convert, expr.Bits:
		from := b.code.Insts[i.A].DType
		if from == i.DType {
			return b.values[i.A]
		}
		if from == tensor.Bool { // the byte of a bool is 0 or 1
			i.Op = expr.Convert
		}
	}
	args := make([]lane.Value, 0, 3)
	for _, u := range i.Uses() {
		args = append(args, b.values[u])
	}
	return b.block.Do(lane.Op(i.Op), i.DType, args...)
}

// stores adds the stores of the outputs.
func (b *lanesBuilder) stores() {
	for _, o := range b.code.Out {
		b.block.Remask(b.values[o.Re], 1)
	}
	for k, o := range b.code.Out {
		im := lane.None
		if o.Im != expr.None {
			im = b.values[o.Im]
		}
		if o.DType != tensor.Invalid {
			b.block.Store(k, b.block.Remask(b.values[o.Re], 1), im)
		}
	}
}
