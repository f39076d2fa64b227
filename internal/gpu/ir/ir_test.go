package ir_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

const (
	u32  = tensor.Uint32
	u64  = tensor.Uint64
	none = tensor.Invalid
)

// kernel is a builder with methods that the kernels of these tests share.
type kernel struct{ *ir.Builder }

func (k kernel) c(x uint64) ir.Value { return k.Const(u32, x) }

// element returns the address of an element of an operand of uint32.
func (k kernel) element(param uint64, index ir.Value) ir.Value {
	bytes := k.Emit(ir.Op(lane.Convert), u64, k.Emit(ir.Op(lane.Mul), u32, index, k.c(4)))
	return k.Emit(ir.Op(lane.Add), u64, k.EmitImm(ir.Param, u64, param), bytes)
}

// newKernel returns a kernel with two operands and groups of 4 threads.
func newKernel() (k kernel, thread ir.Value) {
	k = kernel{ir.NewBuilder(2, 4)}
	return k, k.Emit(ir.Thread, u32)
}

func numbers(list ...uint32) (mem []byte) {
	for _, x := range list {
		mem = binary.LittleEndian.AppendUint32(mem, x)
	}
	return mem
}

// TestGroupSum sums rows of 4 elements, one group a row, in the memory of the group.
func TestGroupSum(t *testing.T) {
	k, thread := newKernel()
	sums := k.Array(u32, 4)
	index := k.Emit(ir.Op(lane.Add), u32, k.Emit(ir.Op(lane.Mul), u32, k.Emit(ir.Group, u32), k.c(4)), thread)
	k.EmitImm(ir.StoreShared, none, sums, thread, k.Load(u32, 1, k.element(1, index))[0])
	width := k.Emit(ir.Var, u32, k.c(2))
	k.While(func() ir.Value {
		k.Emit(ir.Barrier, none)
		w := k.Emit(ir.ReadVar, u32, width)
		k.If(k.Emit(ir.Op(lane.Lt), tensor.Bool, thread, w), func() {
			other := k.EmitImm(ir.LoadShared, u32, sums, k.Emit(ir.Op(lane.Add), u32, thread, w))
			own := k.EmitImm(ir.LoadShared, u32, sums, thread)
			k.EmitImm(ir.StoreShared, none, sums, thread, k.Emit(ir.Op(lane.Add), u32, own, other))
		})
		half := k.Emit(ir.Op(lane.Shr), u32, w, k.c(1))
		k.Emit(ir.WriteVar, none, width, half)
		return k.Emit(ir.Op(lane.Eq), tensor.Bool, half, k.c(0))
	})
	k.If(k.Emit(ir.Op(lane.Eq), tensor.Bool, thread, k.c(0)), func() {
		k.Emit(ir.Store, u32, k.element(0, k.Emit(ir.Group, u32)), k.EmitImm(ir.LoadShared, u32, sums, thread))
	})
	out := numbers(0, 0)
	require.NoError(t, k.Run(2, []ir.Operand{{Mem: out}, {Mem: numbers(1, 2, 3, 4, 10, 20, 30, 40)}}), k.String())
	require.Equal(t, numbers(10, 100), out)
}

// TestElse checks both blocks of a condition.
func TestElse(t *testing.T) {
	k, thread := newKernel()
	k.Emit(ir.If, none, k.Emit(ir.Op(lane.Lt), tensor.Bool, thread, k.c(2)))
	k.Emit(ir.Store, u32, k.element(0, thread), k.c(7))
	k.Emit(ir.Else, none)
	k.Emit(ir.Store, u32, k.element(0, thread), k.c(9))
	k.Emit(ir.End, none)
	// Emit does not know blocks: it reuses an equal value of the first block in the second one.
	require.ErrorContains(t, k.Check(), "not an earlier value of this block")
	k, thread = newKernel()
	at, seven, nine := k.element(0, thread), k.c(7), k.c(9)
	k.Emit(ir.If, none, k.Emit(ir.Op(lane.Lt), tensor.Bool, thread, k.c(2)))
	k.Emit(ir.Store, u32, at, seven)
	k.Emit(ir.Else, none)
	k.Emit(ir.Store, u32, at, nine)
	k.Emit(ir.End, none)
	out := numbers(0, 0, 0, 0)
	require.NoError(t, k.Run(1, []ir.Operand{{Mem: out}, {}}))
	require.Equal(t, numbers(7, 7, 9, 9), out)
}

// TestErrors checks errors of kernels that a device would run.
func TestErrors(t *testing.T) {
	for message, body := range map[string]func(k kernel, thread ir.Value){
		"without a barrier": func(k kernel, thread ir.Value) {
			a := k.Array(u32, 4)
			k.EmitImm(ir.StoreShared, none, a, thread, thread)
			k.EmitImm(ir.LoadShared, u32, a, k.Emit(ir.Op(lane.Xor), u32, thread, k.c(1)))
		},
		"no thread has written": func(k kernel, thread ir.Value) { k.EmitImm(ir.LoadShared, u32, k.Array(u32, 4), thread) },
		"the index is 4, but the array has 4 elements": func(k kernel, thread ir.Value) {
			k.EmitImm(ir.StoreShared, none, k.Array(u32, 4), k.c(4), thread)
		},
		"only some threads reach": func(k kernel, thread ir.Value) {
			k.If(k.Emit(ir.Op(lane.Lt), tensor.Bool, thread, k.c(2)), func() { k.Emit(ir.Barrier, none) })
		},
		"outside of all operands": func(k kernel, thread ir.Value) { k.Load(u32, 1, k.element(1, thread)) },
		"not aligned":             func(k kernel, thread ir.Value) { k.Load(u32, 2, k.element(0, thread)) },
		"does not end": func(k kernel, _ ir.Value) {
			k.While(func() ir.Value { return k.Const(tensor.Bool, 0) })
		},
		"no address 2":  func(k kernel, _ ir.Value) { k.EmitImm(ir.Param, u64, 2) },
		"min of uint32": func(k kernel, thread ir.Value) { k.Emit(ir.Op(lane.Min), u32, thread, thread) },
		"add of int8":   func(k kernel, _ ir.Value) { k.Emit(ir.Op(lane.Add), tensor.Int8) },
		"convert of uint32 cannot give": func(k kernel, thread ir.Value) {
			k.Emit(ir.Op(lane.Convert), tensor.Int64,
				thread)
		},
		"is bool instead of uint32": func(k kernel, _ ir.Value) { k.Emit(ir.Var, u32, k.Const(tensor.Bool, 0)) },
		"a block has no End":        func(k kernel, _ ir.Value) { k.Emit(ir.If, none, k.Const(tensor.Bool, 0)) },
		"there is no open block":    func(k kernel, _ ir.Value) { k.Emit(ir.End, none) },
		"block is not a loop":       func(k kernel, _ ir.Value) { k.Emit(ir.Break, none, k.Const(tensor.Bool, 0)) },
		"3 words of uint32":         func(k kernel, thread ir.Value) { k.Load(u32, 3, k.element(0, thread)) },
		"there is no variable":      func(k kernel, thread ir.Value) { k.Emit(ir.ReadVar, u32, thread) },
		"no array 0":                func(k kernel, thread ir.Value) { k.EmitImm(ir.LoadShared, u32, 0, thread) },
	} {
		k, thread := newKernel()
		body(k, thread)
		err := k.Run(1, []ir.Operand{{Mem: make([]byte, 32)}, {Mem: make([]byte, 12)}})
		require.ErrorContains(t, err, message, k.String())
	}
}
