package interp

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// tabulate replaces the steps of a code whose only operands are one byte or two bools by a lookup in a table of its
// results. An exponential of bytes, for example, then takes a twentieth of the time.
//
// There are three stages. [tableOperands] decides whether the code has such operands. The runner's own steps compute
// the table once, as a row of 256 elements, for all values of the operands. Last, one step replaces the runner's steps:
//
//	dst[i] = table[x[i]]             one byte
//	dst[i] = table[x[i] | y[i]<<1]   two bools; only the first 4 results are used
func (runner *Runner) tabulate(source *expr.Loop) {
	code, loaded := source.Code, tableOperands(source)
	if loaded == nil {
		return
	}
	bytes := operandBytes(len(loaded))
	resultSize, results := code.Out[0].DType.Size(), unsafe.Pointer(new([256]uint64))
	// A slot is the index of an address: slot 0 is the output, and slot 1+k is operand k.
	addresses := make([]unsafe.Pointer, len(runner.elementSize))
	addresses[0] = results
	lookUpStep := step{dst: place{slot: 0, stride: resultSize}}
	indexPlaces := [2]*place{&lookUpStep.a, &lookUpStep.b}
	for position, k := range loaded {
		addresses[1+k] = unsafe.Pointer(&bytes[position])
		*indexPlaces[position] = place{slot: 1 + k, stride: 1}
	}
	const rows = 1
	// One row has all elements of the table. The strides between rows do not matter, and there are no folds.
	runner.Run(runner.NewScratch(), addresses, make([]int, len(addresses)), nil, len(bytes[0]), rows)
	lookUpStep.loop = lookUps[len(loaded)-1][sizeIndex(resultSize)](results)
	runner.rowSteps, runner.blockCount, runner.blockSteps = nil, 0, []step{lookUpStep}
}

// tableOperands returns the operands that a loop loads if they are the index of a table: one byte or two bools. It
// returns nil if the loop does not suit a table, or consists of primitive operations, which are fast enough.
func tableOperands(source *expr.Loop) (loaded []int) {
	code := source.Code
	if len(code.Out) != 1 || code.Out[0].Im != expr.None || len(source.Folds) > 0 {
		return nil
	}
	isPrimitive := true
	for _, inst := range code.Insts {
		isPrimitive = isPrimitive && inst.Op.Primitive()
		if inst.Op == expr.Load && !slices.Contains(loaded, int(inst.A)) {
			loaded = append(loaded, int(inst.A))
		}
	}
	isByte := func(k int) bool { return code.In[k].Size() == 1 && !source.Uniform[k] }
	isBool := func(k int) bool { return code.In[k] == tensor.Bool && !source.Uniform[k] }
	isOneByte := len(loaded) == 1 && isByte(loaded[0])
	isTwoBools := len(loaded) == 2 && isBool(loaded[0]) && isBool(loaded[1])
	if isPrimitive || !isOneByte && !isTwoBools {
		return nil
	}
	return loaded
}

// operandBytes returns, for each operand of a table, its value for each result of the table.
func operandBytes(operandCount int) (bytes [2][256]uint8) {
	for k := range 256 {
		bytes[0][k] = uint8(k)
		if operandCount == 2 { // bools
			bytes[0][k], bytes[1][k] = uint8(k&1), uint8(k>>1&1)
		}
	}
	return bytes
}

// lookUps has the functions that return the loop of a table, indexed by the number of operands minus 1 and by sizeIndex
// of the result.
var lookUps = [2][4]func(results unsafe.Pointer) loop{
	{lookUpOf[uint8], lookUpOf[uint16], lookUpOf[uint32], lookUpOf[uint64]},
	{lookUpPairOf[uint8], lookUpPairOf[uint16], lookUpPairOf[uint32], lookUpPairOf[uint64]},
}

// lookUpOf returns the loop that looks up results of the size of U.
func lookUpOf[U word](results unsafe.Pointer) loop {
	table := (*[256]U)(results)
	return func(o operands) {
		a, dst := o.a, unsafe.Slice((*U)(o.dst.ptr), o.n)
		for i := range dst {
			dst[i] = table[*(*uint8)(unsafe.Add(a.ptr, a.offset))]
			a.offset += a.stride
		}
	}
}

// lookUpPairOf returns the loop that looks up results of the size of U for two bools.
func lookUpPairOf[U word](results unsafe.Pointer) loop {
	table := (*[256]U)(results)
	return func(o operands) { each2(&o, func(x, y uint8) U { return table[x|y<<1] }) }
}
