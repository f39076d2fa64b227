package folds

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/graphrun/graphrun/iter"
)

// AnyOrAll returns the fold of the op any if isAny is set, else of the op all. It folds bools as bytes of 0 and 1. A
// row ends at the first byte that decides the result: 1 for any, 0 for all.
func AnyOrAll(isAny bool) *iter.Fold {
	var initial, decisive uint8 = 1, 0
	columns := allColumns
	if isAny {
		initial, decisive = 0, 1
		columns = anyColumns
	}
	f := iter.NewFold(initial, func(a *uint8, x []bool, _ int) {
		if *a != decisive && bytes.IndexByte(bytesOf(x), decisive) >= 0 {
			*a = decisive
		}
	}, func(a []uint8, x []bool, _ int) { columns(a, bytesOf(x)) }, columns)
	return iter.WithResult(f, func(dst []bool, a []uint8) { copy(bytesOf(dst), a) })
}

// bytesOf returns bools as bytes of 0 and 1, without a copy.
func bytesOf(x []bool) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// anyColumns and allColumns combine a[i] with x[i] for each index i of a, by or and by and, eight bytes at a time. x
// has bools as bytes or, when partial results are merged, accumulators.
func anyColumns(a, x []uint8) {
	x = x[:len(a)]
	for ; len(a) >= 8 && len(x) >= 8; a, x = a[8:], x[8:] {
		binary.NativeEndian.PutUint64(a, binary.NativeEndian.Uint64(a)|binary.NativeEndian.Uint64(x))
	}
	x = x[:len(a)]
	for i := range a {
		a[i] |= x[i]
	}
}

func allColumns(a, x []uint8) {
	x = x[:len(a)]
	for ; len(a) >= 8 && len(x) >= 8; a, x = a[8:], x[8:] {
		binary.NativeEndian.PutUint64(a, binary.NativeEndian.Uint64(a)&binary.NativeEndian.Uint64(x))
	}
	x = x[:len(a)]
	for i := range a {
		a[i] &= x[i]
	}
}
