package npz_test

import (
	"bytes"
	"fmt"

	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// Headers are read before any array, and one array without the others.
func Example() {
	var file bytes.Buffer
	if err := npz.WriteNPZ(&file, []npz.Entry{
		{Name: "weight", Tensor: tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))},
		{Name: "bias", Tensor: tensor.Must(tensor.FromSlice([]int64{7, 8}, 2))},
	}); err != nil {
		fmt.Println(err)
		return
	}
	a, err := npz.NewArchive("weights.npz", bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	for _, name := range a.Names() {
		m, err := a.Meta(name)
		fmt.Println(name, m, err)
	}
	bias, err := a.Read("bias")
	fmt.Println(bias.At(1), err)
	_, err = a.ReadAs("weight", tensor.New(tensor.Float32, 3, 3))
	fmt.Println(err)
	// Output:
	// weight float32[2,3]@(3,1) <nil>
	// bias int64[2]@(1) <nil>
	// 8 <nil>
	// weights.npz: entry "weight": the array is float32[2, 3], want float32[3, 3]
}
