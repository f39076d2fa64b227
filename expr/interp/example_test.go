package interp_test

import (
	"fmt"
	"log"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/tensor"
)

// A loop over rows of x, with one y for each row, is prepared once and run any number of times.
func Example() {
	f, err := expr.Parse("x * y")
	if err != nil {
		log.Fatal(err)
	}
	code, err := f.Code([]tensor.DType{tensor.Float32, tensor.Float32}, expr.Typing{})
	if err != nil {
		log.Fatal(err)
	}
	run, err := interp.New(&expr.Loop{Code: code, Uniform: []bool{false, true}})
	if err != nil {
		log.Fatal(err)
	}
	x, y, out := []float32{1, 2, 3, 4}, []float32{2, 10}, make([]float32, 4)
	addresses := []unsafe.Pointer{unsafe.Pointer(&out[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0])}
	run.Run(nil, addresses, []int{8, 8, 4}, nil, 2, 2) // 2 rows of 2 elements
	fmt.Println(out)
	// Output: [2 4 30 40]
}
