package folds

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/graphrun/graphrun/iter"
)

// AnyOrAll returns the fold of the op `any` if isAny is set, and otherwise of the op `all`. It folds bools as bytes of
// 0 and 1. A row ends at the first byte that decides the result: 1 for `any`, 0 for `all`. The last parameter of the
// loops, the position of the elements, is not used. The last argument of NewFold, the loop over columns, also merges
// partial results.
func AnyOrAll(isAny bool) *iter.Fold {
	var initial, decisive uint8 = 1, 0
	columns := allColumns
	if isAny {
		initial, decisive = 0, 1
		columns = anyColumns
	}
	fold := iter.NewFold(initial, func(accumulator *uint8, x []bool, _ int) {
		if *accumulator != decisive && bytes.IndexByte(bytesOf(x), decisive) >= 0 {
			*accumulator = decisive
		}
	}, func(accumulators []uint8, x []bool, _ int) { columns(accumulators, bytesOf(x)) }, columns)
	return iter.WithResult(fold, func(dst []bool, accumulators []uint8) { copy(bytesOf(dst), accumulators) })
}

// bytesOf returns bools as bytes of 0 and 1, without a copy.
func bytesOf(x []bool) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// anyColumns and allColumns combine each accumulators[i] with x[i], eight bytes at a time: anyColumns by the bitwise
// or, allColumns by the bitwise and. x has bools as bytes, or accumulators of a partial result.
func anyColumns(accumulators, x []uint8) {
	x = x[:len(accumulators)]
	for ; len(accumulators) >= 8 && len(x) >= 8; accumulators, x = accumulators[8:], x[8:] {
		binary.NativeEndian.PutUint64(accumulators, binary.NativeEndian.Uint64(accumulators)|binary.NativeEndian.Uint64(x))
	}
	x = x[:len(accumulators)]
	for i := range accumulators {
		accumulators[i] |= x[i]
	}
}

func allColumns(accumulators, x []uint8) {
	x = x[:len(accumulators)]
	for ; len(accumulators) >= 8 && len(x) >= 8; accumulators, x = accumulators[8:], x[8:] {
		binary.NativeEndian.PutUint64(accumulators, binary.NativeEndian.Uint64(accumulators)&binary.NativeEndian.Uint64(x))
	}
	x = x[:len(accumulators)]
	for i := range accumulators {
		accumulators[i] &= x[i]
	}
}
