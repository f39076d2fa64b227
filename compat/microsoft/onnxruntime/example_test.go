package onnxruntime

import (
	"context"
	"fmt"
	"slices"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func Example() {
	if err := Init(); err != nil {
		panic(err)
	}
	session := must(NewSession("../../onnxruntime/testdata/sums.onnx", nil))
	defer session.Close()
	for _, info := range slices.Concat(session.Inputs(), session.Outputs()) {
		fmt.Println(info.Name, info.DataType, info.Shape)
	}
	x := must(CreateTensor([]int64{1, 4}, []float32{1, 2, 3, 10}))
	out := must(session.Run(context.Background(), map[string]*Tensor{session.Inputs()[0].Name: x}, nil))
	for _, info := range session.Outputs() {
		fmt.Println(info.Name, must(TensorData[float32](out[info.Name])))
	}
	// Output:
	// x Float32 [1 4]
	// sum Float32 []
	// difference Float32 []
	// sum [16]
	// difference [9]
}
