package kit

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// RowOps are the loops over one row of an op such as gather or scatter, which moves elements between two values. The
// table is the value that is accessed at positions given by indices. The plain value is accessed with a constant stride.
// Steps and offsets are in bytes.
type RowOps struct {
	// Strided moves n elements if both values are accessed with a constant stride.
	Strided func(near, far unsafe.Pointer, nearStep, farStep, n int)
	// AtPlaces moves one element for each offset from the beginning of the table.
	AtPlaces func(near, far unsafe.Pointer, nearStep int, places []int)
}

// ReadOps returns the loops that copy elements of the table to the plain value.
func ReadOps(d tensor.DType) RowOps {
	move := Mover(d, d)
	return RowOps{
		Strided:  func(near, far unsafe.Pointer, ns, fs, n int) { move(near, far, ns, fs, n) },
		AtPlaces: GatherLoops[d.Size()],
	}
}

// GatherLoops has the gather loops by element size in bytes. A loop copies the element at table + offsets[i] to plain
// + i*step.
var GatherLoops = [17]func(near, far unsafe.Pointer, step int, places []int){
	1: readPlaces[uint8], 2: readPlaces[uint16], 4: readPlaces[uint32], 8: readPlaces[uint64], 16: readPlaces[[2]uint64]}

func readPlaces[T uint8 | uint16 | uint32 | uint64 | [2]uint64](near, far unsafe.Pointer, step int, places []int) {
	for i, at := range places {
		*(*T)(unsafe.Add(near, i*step)) = *(*T)(unsafe.Add(far, at))
	}
}

// ScatterLoops has the scatter loops by element size in bytes. A loop copies the element at plain + i*step to table +
// offsets[i].
var ScatterLoops = [17]func(near, far unsafe.Pointer, step int, places []int){
	1: writePlaces[uint8], 2: writePlaces[uint16], 4: writePlaces[uint32], 8: writePlaces[uint64],
	16: writePlaces[[2]uint64]}

func writePlaces[T uint8 | uint16 | uint32 | uint64 | [2]uint64](near, far unsafe.Pointer, step int, places []int) {
	for i, at := range places {
		*(*T)(unsafe.Add(far, at)) = *(*T)(unsafe.Add(near, i*step))
	}
}
