package kit

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// RowLoops are the loops over one row of an op such as gather or scatter, which moves elements between two values. The
// table is the value that is accessed at positions given by indices. The plain value is accessed with a constant
// stride. Steps and offsets are in bytes.
type RowLoops struct {
	// Strided moves n elements if both values are accessed with a constant stride.
	Strided func(plain, table unsafe.Pointer, plainStep, tableStep, n int)
	// AtOffsets moves one element for each offset from the beginning of the table.
	AtOffsets func(plain, table unsafe.Pointer, plainStep int, offsets []int)
}

// GatherRowLoops returns the loops that copy elements of the table to the plain value.
func GatherRowLoops(dtype tensor.DType) RowLoops {
	move := RowConverter(dtype, dtype)
	return RowLoops{
		Strided: func(plain, table unsafe.Pointer, plainStep, tableStep, n int) {
			move(plain, table, plainStep, tableStep, n)
		},
		AtOffsets: GatherLoops[dtype.Size()],
	}
}

// GatherLoops has the gather loops, indexed by element size in bytes. A loop copies the element at table + offsets[i]
// to plain + i*step.
var GatherLoops = [17]func(plain, table unsafe.Pointer, step int, offsets []int){
	1: gatherElements[uint8], 2: gatherElements[uint16], 4: gatherElements[uint32], 8: gatherElements[uint64],
	16: gatherElements[[2]uint64]}

func gatherElements[T uint8 | uint16 | uint32 | uint64 | [2]uint64](plain, table unsafe.Pointer, step int,
	offsets []int) {
	for i, offset := range offsets {
		*(*T)(unsafe.Add(plain, i*step)) = *(*T)(unsafe.Add(table, offset))
	}
}

// ScatterLoops has the scatter loops, indexed by element size in bytes. A loop copies the element at plain + i*step to
// table + offsets[i].
var ScatterLoops = [17]func(plain, table unsafe.Pointer, step int, offsets []int){
	1: scatterElements[uint8], 2: scatterElements[uint16], 4: scatterElements[uint32], 8: scatterElements[uint64],
	16: scatterElements[[2]uint64]}

func scatterElements[T uint8 | uint16 | uint32 | uint64 | [2]uint64](plain, table unsafe.Pointer, step int,
	offsets []int) {
	for i, offset := range offsets {
		// The comparison loads the element before the store. Loads of several elements overlap, also if they are not in
		// the cache; stores do not.
		if dst, x := (*T)(unsafe.Add(table, offset)), *(*T)(unsafe.Add(plain, i*step)); *dst != x {
			*dst = x
		}
	}
}
