package ir_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

const (
	u32  = tensor.Uint32
	u64  = tensor.Uint64
	none = tensor.Invalid
)

// kernel adds to a builder what the kernels of these tests have in common.
type kernel struct{ *ir.Builder }

func (k kernel) c(x uint64) ir.Value { return k.Const(u32, x) }

// element returns the address of a uint32 of an operand.
func (k kernel) element(param uint64, index ir.Value) ir.Value {
	bytes := k.Do(ir.Op(lane.Convert), u64, k.Do(ir.Op(lane.Mul), u32, index, k.c(4)))
	return k.Do(ir.Op(lane.Add), u64, k.DoImm(ir.Param, u64, param), bytes)
}

// newKernel returns a kernel with two operands and groups of 4 threads.
func newKernel() (k kernel, thread ir.Value) {
	k = kernel{ir.NewBuilder(2, 4)}
	return k, k.Do(ir.Thread, u32)
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
	index := k.Do(ir.Op(lane.Add), u32, k.Do(ir.Op(lane.Mul), u32, k.Do(ir.Group, u32), k.c(4)), thread)
	k.DoImm(ir.StoreShared, none, sums, thread, k.Load(u32, 1, k.element(1, index))[0])
	width := k.Do(ir.Var, u32, k.c(2))
	k.While(func() ir.Value {
		k.Do(ir.Barrier, none)
		w := k.Do(ir.Get, u32, width)
		k.If(k.Do(ir.Op(lane.Lt), tensor.Bool, thread, w), func() {
			other := k.DoImm(ir.LoadShared, u32, sums, k.Do(ir.Op(lane.Add), u32, thread, w))
			own := k.DoImm(ir.LoadShared, u32, sums, thread)
			k.DoImm(ir.StoreShared, none, sums, thread, k.Do(ir.Op(lane.Add), u32, own, other))
		})
		half := k.Do(ir.Op(lane.Shr), u32, w, k.c(1))
		k.Do(ir.Set, none, width, half)
		return k.Do(ir.Op(lane.Eq), tensor.Bool, half, k.c(0))
	})
	k.If(k.Do(ir.Op(lane.Eq), tensor.Bool, thread, k.c(0)), func() {
		k.Do(ir.Store, u32, k.element(0, k.Do(ir.Group, u32)), k.DoImm(ir.LoadShared, u32, sums, thread))
	})
	out := numbers(0, 0)
	require.NoError(t, k.Run(2, []ir.Operand{{Mem: out}, {Mem: numbers(1, 2, 3, 4, 10, 20, 30, 40)}}), k.String())
	require.Equal(t, numbers(10, 100), out)
}

// TestElse checks both blocks of a condition.
func TestElse(t *testing.T) {
	k, thread := newKernel()
	k.Do(ir.If, none, k.Do(ir.Op(lane.Lt), tensor.Bool, thread, k.c(2)))
	k.Do(ir.Store, u32, k.element(0, thread), k.c(7))
	k.Do(ir.Else, none)
	k.Do(ir.Store, u32, k.element(0, thread), k.c(9))
	k.Do(ir.End, none)
	// The builder does not know the blocks, so that the second block uses values of the first.
	require.ErrorContains(t, k.Check(), "not an earlier value of this block")
	k, thread = newKernel()
	at, seven, nine := k.element(0, thread), k.c(7), k.c(9)
	k.Do(ir.If, none, k.Do(ir.Op(lane.Lt), tensor.Bool, thread, k.c(2)))
	k.Do(ir.Store, u32, at, seven)
	k.Do(ir.Else, none)
	k.Do(ir.Store, u32, at, nine)
	k.Do(ir.End, none)
	out := numbers(0, 0, 0, 0)
	require.NoError(t, k.Run(1, []ir.Operand{{Mem: out}, {}}))
	require.Equal(t, numbers(7, 7, 9, 9), out)
}

// TestErrors checks errors of kernels that a device would run.
func TestErrors(t *testing.T) {
	for message, body := range map[string]func(k kernel, thread ir.Value){
		"without a barrier": func(k kernel, thread ir.Value) {
			a := k.Array(u32, 4)
			k.DoImm(ir.StoreShared, none, a, thread, thread)
			k.DoImm(ir.LoadShared, u32, a, k.Do(ir.Op(lane.Xor), u32, thread, k.c(1)))
		},
		"no thread has written": func(k kernel, thread ir.Value) { k.DoImm(ir.LoadShared, u32, k.Array(u32, 4), thread) },
		"the index is 4, but the array has 4 elements": func(k kernel, thread ir.Value) {
			k.DoImm(ir.StoreShared, none, k.Array(u32, 4), k.c(4), thread)
		},
		"only some threads reach": func(k kernel, thread ir.Value) {
			k.If(k.Do(ir.Op(lane.Lt), tensor.Bool, thread, k.c(2)), func() { k.Do(ir.Barrier, none) })
		},
		"outside of all operands": func(k kernel, thread ir.Value) { k.Load(u32, 1, k.element(1, thread)) },
		"not aligned":             func(k kernel, thread ir.Value) { k.Load(u32, 2, k.element(0, thread)) },
		"does not end": func(k kernel, _ ir.Value) {
			k.While(func() ir.Value { return k.Const(tensor.Bool, 0) })
		},
		"no address 2":                  func(k kernel, _ ir.Value) { k.DoImm(ir.Param, u64, 2) },
		"min of uint32":                 func(k kernel, thread ir.Value) { k.Do(ir.Op(lane.Min), u32, thread, thread) },
		"add of int8":                   func(k kernel, _ ir.Value) { k.Do(ir.Op(lane.Add), tensor.Int8) },
		"convert of uint32 cannot give": func(k kernel, thread ir.Value) { k.Do(ir.Op(lane.Convert), tensor.Int64, thread) },
		"is bool instead of uint32":     func(k kernel, _ ir.Value) { k.Do(ir.Var, u32, k.Const(tensor.Bool, 0)) },
		"a block has no End":            func(k kernel, _ ir.Value) { k.Do(ir.If, none, k.Const(tensor.Bool, 0)) },
		"there is no open block":        func(k kernel, _ ir.Value) { k.Do(ir.End, none) },
		"block is not a loop":           func(k kernel, _ ir.Value) { k.Do(ir.Break, none, k.Const(tensor.Bool, 0)) },
		"3 words of uint32":             func(k kernel, thread ir.Value) { k.Load(u32, 3, k.element(0, thread)) },
		"there is no variable":          func(k kernel, thread ir.Value) { k.Do(ir.Get, u32, thread) },
		"no array 0":                    func(k kernel, thread ir.Value) { k.DoImm(ir.LoadShared, u32, 0, thread) },
	} {
		k, thread := newKernel()
		body(k, thread)
		err := k.Run(1, []ir.Operand{{Mem: make([]byte, 32)}, {Mem: make([]byte, 12)}})
		require.ErrorContains(t, err, message, k.String())
	}
}
