package onnxruntime_go

import "fmt"

// A session whose inputs and outputs are the same memory in each run. The model has the sum of four numbers, and the
// greatest difference between two of them. Package tests has further programs.
func ExampleAdvancedSession() {
	if err := InitializeEnvironment(); err != nil {
		panic(err)
	}
	defer DestroyEnvironment()
	x, _ := NewTensor(NewShape(1, 4), []float32{0.5, 0.25, 1, 2})
	sum, _ := NewEmptyScalar[float32]()
	difference, _ := NewEmptyScalar[float32]()
	session, err := NewAdvancedSession("testdata/sums.onnx", []string{"x"}, []string{"sum", "difference"}, []Value{x},
		[]Value{sum, difference}, nil)
	if err != nil {
		panic(err)
	}
	defer session.Destroy()
	fmt.Println(session.Run(), sum.GetData(), difference.GetData())
	copy(x.GetData(), []float32{1, 2, 3, 4})
	fmt.Println(session.Run(), sum.GetData(), difference.GetData())
	// Output:
	// <nil> 3.75 1.75
	// <nil> 10 3
}
