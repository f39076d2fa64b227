package kit

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// RowOps are the operations of an indexed walk on rows of elements: block if the indexed side has a constant stride,
// each if every element has its own offset.
type RowOps struct {
	Block func(near, far unsafe.Pointer, nearStep, farStep, n int)
	Each  func(near, far unsafe.Pointer, nearStep int, places []int)
}

// ReadOps returns the operations that copy elements from the indexed side.
func ReadOps(d tensor.DType) RowOps {
	move := Mover(d, d)
	return RowOps{
		Block: func(near, far unsafe.Pointer, ns, fs, n int) { move(near, far, ns, fs, n) },
		Each:  ReadEach[d.Size()],
	}
}

// ReadEach are the gather loops by element size: element i, at i*step bytes from near, is read places[i] bytes after
// far.
var ReadEach = [17]func(near, far unsafe.Pointer, step int, places []int){
	1: readPlaces[uint8], 2: readPlaces[uint16], 4: readPlaces[uint32], 8: readPlaces[uint64], 16: readPlaces[[2]uint64]}

func readPlaces[T uint8 | uint16 | uint32 | uint64 | [2]uint64](near, far unsafe.Pointer, step int, places []int) {
	for i, at := range places {
		*(*T)(unsafe.Add(near, i*step)) = *(*T)(unsafe.Add(far, at))
	}
}

// WriteEach are the scatter loops, the inverse of [ReadEach].
var WriteEach = [17]func(near, far unsafe.Pointer, step int, places []int){
	1: writePlaces[uint8], 2: writePlaces[uint16], 4: writePlaces[uint32], 8: writePlaces[uint64],
	16: writePlaces[[2]uint64]}

func writePlaces[T uint8 | uint16 | uint32 | uint64 | [2]uint64](near, far unsafe.Pointer, step int, places []int) {
	for i, at := range places {
		*(*T)(unsafe.Add(far, at)) = *(*T)(unsafe.Add(near, i*step))
	}
}
