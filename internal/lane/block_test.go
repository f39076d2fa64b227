package lane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// newBlock returns a block with an output of dtype out and operands of the dtypes in. The last operand has one element
// for each row.
func newBlock(out tensor.DType, in ...tensor.DType) *lane.Block {
	b := &lane.Block{Ptrs: []lane.Ptr{{DType: out, Kind: lane.Output}}}
	for k, d := range in {
		p := lane.Ptr{DType: d}
		if k == len(in)-1 {
			p.Kind = lane.RowOperand
		}
		b.Ptrs = append(b.Ptrs, p)
	}
	return b
}

func TestDoConvertsMasks(t *testing.T) {
	b := newBlock(tensor.Float32, tensor.Float32, tensor.Float64, tensor.Bool, tensor.Float32)
	x, y, m, z := b.Load(1, 0), b.Load(2, 0), b.Load(3, 0), b.Load(4, 0)
	less := b.Emit(lane.Lt, tensor.Bool, x, z)
	require.Equal(t, lane.Type{DType: tensor.Bool, Mask: 4}, b.Type(less))
	zero := b.Emit(lane.Convert, tensor.Bool, y)
	require.Equal(t, lane.Type{DType: tensor.Bool, Mask: 8}, b.Type(zero))
	both := b.Emit(lane.And, tensor.Bool, b.Emit(lane.Or, tensor.Bool, less, zero), b.Const(tensor.Bool, 1))
	require.Equal(t, lane.Type{DType: tensor.Bool, Mask: 4}, b.Type(both), "the narrowest width without constants")
	all := b.Emit(lane.And, tensor.Bool, both, m)
	require.Equal(t, lane.Type{DType: tensor.Bool, Mask: 1}, b.Type(all))
	b.Store(0, b.Emit(lane.Select, tensor.Float32, all, x, z), lane.None)
	require.NoError(t, b.Check())
	before := len(b.Insts)
	require.Equal(t, all, b.Emit(lane.And, tensor.Bool, both, m), "equal instructions are one value")
	require.Equal(t, all, b.Remask(b.Remask(all, 8), 1), "a mask is not widened and narrowed")
	require.LessOrEqual(t, len(b.Insts), before+1)
}

// TestTables groups tables with equal indices by two, except for the table that cannot be combined.
func TestTables(t *testing.T) {
	b := newBlock(tensor.Float32, tensor.Float32, tensor.Float32)
	var tables [6]*[32]float32
	var lookups [6]*lane.Inst
	for k := range tables {
		tables[k] = new([32]float32)
		inst := b.Insts[b.Lookup(tables[k], b.Load(1+k/5, 0))] // the last one has other indices
		lookups[k] = &inst
	}
	canCombine := func(table *[32]float32) bool { return table != tables[1] }
	for k, group := range [][]int{{0, 2}, nil, {0, 2}, {3, 4}, {3, 4}, {5}} {
		combined := b.Tables(lookups[k], 2, canCombine)
		require.Len(t, combined, len(group))
		for i, table := range group {
			require.Same(t, tables[table], combined[i])
		}
	}
}

func TestUniform(t *testing.T) {
	b := newBlock(tensor.Float32, tensor.Float32, tensor.Float32)
	x, z := b.Load(1, 0), b.Load(2, 0)
	half := b.Emit(lane.Mul, tensor.Float32, z, b.Const(tensor.Float32, 0x3F000000))
	require.True(t, b.Uniform(half))
	require.False(t, b.Uniform(x))
	require.False(t, b.Uniform(b.Emit(lane.Add, tensor.Float32, x, half)))
}

// TestCheckFindsErrors changes one field of a valid block at a time.
func TestCheckFindsErrors(t *testing.T) {
	valid := func() *lane.Block {
		b := newBlock(tensor.Complex64, tensor.Float32, tensor.Bool, tensor.Complex64)
		x, m, z := b.Load(1, 0), b.Load(2, 0), b.Load(3, 1)
		sum := b.Emit(lane.FMA, tensor.Float32, x, z, b.Const(tensor.Float32, 0))
		b.Store(0, b.Emit(lane.Select, tensor.Float32, m, sum, b.Lookup(new([32]float32), x)), x)
		return b
	}
	require.NoError(t, valid().Check())
	for at := range valid().Insts {
		for name, change := range map[string]func(*lane.Inst){
			"op":      func(i *lane.Inst) { i.Op = lane.Invalid },
			"unknown": func(i *lane.Inst) { i.Op = 200 },
			"type":    func(i *lane.Inst) { i.Type.DType = tensor.Int64 },
			"mask":    func(i *lane.Inst) { i.Type.Mask++ },
			"imm":     func(i *lane.Inst) { i.Imm = 1 << 32 },
			"pointer": func(i *lane.Inst) { i.Ptr = 4 },
			"A":       func(i *lane.Inst) { i.A = lane.Value(at) },
			"B":       func(i *lane.Inst) { i.B = lane.Value(at) },
			"C":       func(i *lane.Inst) { i.C = lane.Value(at) },
			"table":   func(i *lane.Inst) { i.Table = nil },
		} {
			b := valid()
			before := b.Insts[at]
			change(&b.Insts[at])
			unread := map[string]bool{
				"imm":     before.Op != lane.Const && before.Op != lane.Load,
				"pointer": before.Op != lane.Load && before.Op != lane.Store,
				"A":       lane.Ops[before.Op].Args < 1,
				"B":       lane.Ops[before.Op].Args < 2 && before.Op != lane.Store,
				"C":       lane.Ops[before.Op].Args < 3,
				"table":   before.Op != lane.Lookup,
			}
			if !unread[name] {
				require.Error(t, b.Check(), "v%d (%v): %s", at, before.Op, name)
			}
		}
	}
	b := valid()
	b.Const(tensor.Bool, 0)
	require.Error(t, b.Check(), "an instruction after a store")
}
