package safetensors_test

import (
	"bytes"
	"fmt"

	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

// The header of a file is checked first.
func Example() {
	var file bytes.Buffer
	if err := safetensors.Write(&file, []safetensors.Entry{
		{Name: "bias", Tensor: tensor.Must(tensor.FromSlice([]int8{7, 8}, 2))},
		{Name: "weight", Tensor: tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2))},
	}, map[string]string{"format": "pt"}); err != nil {
		fmt.Println(err)
		return
	}
	f, err := safetensors.Parse(file.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println(f.Names(), f.Metadata())
	w, err := f.Tensor("weight")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Meta, w.At(1, 0))
	_, err = safetensors.Parse(file.Bytes()[:file.Len()-1])
	fmt.Println(err)
	// Output:
	// [weight bias] map[format:pt]
	// float32[2,2]@(2,1) 3
	// tensor "bias" ends at 18, past the end of the data at 17
}
