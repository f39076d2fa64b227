package lower

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/tensor"
)

// This file adds the code of folds to a row kernel. A unit is a row or a piece of a row. The lanes of a unit are the
// threads that compute it together. A thread folds its elements into accumulators. The lanes then combine their
// accumulators into one number, and another launch combines the numbers of the pieces.

// accumulator is a variable of a thread, with a partial result of a fold.
type accumulator struct {
	op       expr.Op
	dtype    tensor.DType
	variable ir.Value
}

// newAccumulator adds an accumulator with an initial value.
func (k *rowKernel) newAccumulator(op expr.Op, dtype tensor.DType, initial ir.Value) accumulator {
	return accumulator{op, dtype, k.Emit(ir.Var, registerDType(dtype), initial)}
}

// neutral returns the neutral element of a fold.
func (k *rowKernel) neutral(op expr.Op, dtype tensor.DType) ir.Value {
	bits := expr.Neutral(op, dtype)
	if dtype == tensor.Bool { // constant does not accept bools
		return k.Const(dtype, bits&1)
	}
	return k.constant(dtype, bits)
}

// read returns the value of an accumulator.
func (k *rowKernel) read(acc accumulator) ir.Value {
	return k.Emit(ir.ReadVar, registerDType(acc.dtype), acc.variable)
}

// write sets an accumulator.
func (k *rowKernel) write(acc accumulator, value ir.Value) {
	k.Emit(ir.WriteVar, tensor.Invalid, acc.variable, value)
}

// fold combines two partial results by the operation of an accumulator.
func (k *rowKernel) fold(acc accumulator, a, b ir.Value) ir.Value {
	// addInst reads only the operation and the dtype of the Inst. a and b are the operands.
	return k.addInst(expr.Inst{Op: acc.op, DType: acc.dtype, A: 0, B: 0, C: expr.None}, acc.dtype, []ir.Value{a, b})
}

// combineFolds combines the accumulators of the lanes of a unit. If the unit is a row, the results become numbers of
// the row (k.numbers). If the unit is a piece, the results are stored in scratch memory.
func (k *rowKernel) combineFolds(pass *expr.RowPass, accumulators []accumulator) {
	var results []ir.Value
	for _, acc := range accumulators {
		results = append(results, k.combineLanes(acc))
	}
	if k.piece == ir.None {
		for index, result := range results {
			k.numbers[pass.FoldResults[index]] = result
		}
		return
	}
	k.If(k.isFirst(), func() {
		for index, result := range results {
			address := k.partialAddress(index, k.piece)
			k.storeRun(slot(accumulators[index].dtype), address, []ir.Value{result})
		}
	})
}

// combineLanes combines the values that the lanes of a unit have in an accumulator, by a balanced tree in group memory.
// Each step halves `half`. Then each lane l < half combines its value with the value of lane l+half. All lanes get the
// result.
func (k *rowKernel) combineLanes(acc accumulator) ir.Value {
	value := k.read(acc)
	if k.lanes == 1 {
		return value
	}
	dtype, stored := acc.dtype, sharedType(acc.dtype) // stored is the dtype in group memory: uint32 for bool
	array := k.Array(stored, groupSize)
	k.EmitImm(ir.StoreShared, tensor.Invalid, array, k.thread, k.toShared(dtype, value))
	for half := k.lanes / 2; half > 0; half /= 2 {
		k.Emit(ir.Barrier, tensor.Invalid)
		k.If(k.isLess(k.lane, half), func() {
			other := k.add32(k.thread, k.u32(half*k.laneStride))
			lower := k.fromShared(dtype, k.EmitImm(ir.LoadShared, stored, array, k.thread))
			upper := k.fromShared(dtype, k.EmitImm(ir.LoadShared, stored, array, other))
			folded := k.fold(acc, lower, upper)
			k.EmitImm(ir.StoreShared, tensor.Invalid, array, k.thread, k.toShared(dtype, folded))
		})
	}
	k.Emit(ir.Barrier, tensor.Invalid)
	first := k.sub32(k.thread, k.mul32(k.lane, k.laneStride)) // the thread of lane 0
	return k.fromShared(dtype, k.EmitImm(ir.LoadShared, stored, array, first))
}

// joinPieces combines the results of the pieces of a row in pass i, and stores them as numbers of the row.
func (k *rowKernel) joinPieces(i int) {
	pass := k.program.Passes[i]
	for index, fold := range pass.Folds {
		dtype := pass.Code.Insts[fold.Value].DType
		partial := func(piece ir.Value) ir.Value { return k.loadRun(slot(dtype), k.partialAddress(index, piece))[0] }
		acc := k.newAccumulator(fold.Op, dtype, partial(k.lane))
		// Lane l combines pieces l and l+lanes, if piece l+lanes exists. There are fewer than 2*lanes pieces.
		second := k.add32(k.lane, k.u32(k.lanes))
		if k.lanes < k.pieces {
			k.If(k.isLess(second, k.pieces), func() { k.write(acc, k.fold(acc, k.read(acc), partial(second))) })
		}
		k.numbers[pass.FoldResults[index]] = k.combineLanes(acc)
	}
	if len(pass.Folds) > 0 {
		k.If(k.isFirst(), func() {
			for _, index := range pass.FoldResults {
				k.storeNumber(index)
			}
		})
	}
}
