package kit

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// RowOps are what an indexed walk does to runs of elements: block where the far side has an
// even step, each where every element has a place of its own.
type RowOps struct {
	Block func(near, far unsafe.Pointer, nearStep, farStep, n int)
	Each  func(near, far unsafe.Pointer, nearStep int, places []int)
}

// ReadOps move elements from the far side to the near one.
func ReadOps(d tensor.DType) RowOps {
	move := Mover(d, d)
	return RowOps{
		Block: func(near, far unsafe.Pointer, ns, fs, n int) { move(near, far, ns, fs, n) },
		Each:  ReadEach[d.Size()],
	}
}

// ReadEach are the loops that gather, by the size of an element: element i, at i*step bytes from near, is read
// from places[i] bytes after far.
var ReadEach = [17]func(near, far unsafe.Pointer, step int, places []int){
	1: readPlaces[uint8], 2: readPlaces[uint16], 4: readPlaces[uint32], 8: readPlaces[uint64], 16: readPlaces[[2]uint64]}

func readPlaces[T uint8 | uint16 | uint32 | uint64 | [2]uint64](near, far unsafe.Pointer, step int, places []int) {
	for i, at := range places {
		*(*T)(unsafe.Add(near, i*step)) = *(*T)(unsafe.Add(far, at))
	}
}

// WriteEach are the loops that scatter, as [ReadEach] gathers.
var WriteEach = [17]func(near, far unsafe.Pointer, step int, places []int){
	1: writePlaces[uint8], 2: writePlaces[uint16], 4: writePlaces[uint32], 8: writePlaces[uint64],
	16: writePlaces[[2]uint64]}

func writePlaces[T uint8 | uint16 | uint32 | uint64 | [2]uint64](near, far unsafe.Pointer, step int, places []int) {
	for i, at := range places {
		*(*T)(unsafe.Add(far, at)) = *(*T)(unsafe.Add(near, i*step))
	}
}
