package axes_test

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/tensor"
)

// Sums over the last dimension of a transposed matrix of integers, as a kernel computes them: a walk over the kept
// axes. At each position, a line is loaded and converted to a block of float32.
func Example() {
	data := []int32{1, 2, 3, 10, 20, 30}
	in, _ := tensor.New(tensor.Int32, 2, 3).Transpose(0, 1) // three lines of two elements
	sums := make([]float32, 3)
	out := tensor.Meta{DType: tensor.Float32, Shape: in.Shape, Strides: []int{1, 0}}

	kept, along := axes.Split(axes.Dims(in, out), []bool{false, true}, true)
	fmt.Println("kept", kept[0].Size, kept[0].InStride, "along", along[0].Size, along[0].InStride)

	load := axes.NewLoader(in.DType, tensor.Float32, tensor.Float32)
	var block, room [axes.BlockBytes]byte
	w := axes.Walker{Axes: kept, Index: make([]int, len(kept))}
	for range axes.Numel(kept) {
		line := load.Run(unsafe.Pointer(&block), unsafe.Pointer(&room), unsafe.Add(unsafe.Pointer(&data[0]), w.Offset),
			along[0].InStride, along[0].Size)
		sum := (*float32)(unsafe.Add(unsafe.Pointer(&sums[0]), w.OutOffsets[0]))
		for _, x := range unsafe.Slice((*float32)(line), along[0].Size) {
			*sum += x
		}
		w.Seek(w.Index[0] + 1)
	}
	fmt.Println(sums)
	// Output:
	// kept 3 4 along 2 12
	// [11 22 33]
}
