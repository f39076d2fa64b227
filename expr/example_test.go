package expr_test

import (
	"fmt"
	"log"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/tensor"
)

// A formula is parsed, typed for dtypes, prepared and run.
func Example() {
	f, err := expr.Parse("t = x * y; where(t > limit, t, 0)")
	if err != nil {
		log.Fatal(err)
	}
	code, err := f.Code([]tensor.DType{tensor.Float32, tensor.Float32},
		expr.Typing{Attrs: map[string]tensor.Scalar{"limit": tensor.FloatScalar(2.5)}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(code)
	loop := &expr.Loop{Code: code, Uniform: []bool{false, true}} // y is one number for the row
	run, err := interp.New(loop)
	if err != nil {
		log.Fatal(err)
	}
	x, y, out := []float32{1, 2, 3}, []float32{2}, make([]float32, 3)
	run.Run(nil, []unsafe.Pointer{unsafe.Pointer(&out[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0])},
		make([]int, 3), nil, 3, 1)
	fmt.Println(out)
	// Output:
	// v0 = load.float32 x0
	// v1 = load.float32 x1
	// v2 = mul.float32 v0 v1
	// v3 = const.float32 2.5
	// v4 = lt.bool v3 v2
	// v5 = const.float32 0
	// v6 = select.float32 v4 v2 v5
	// y0.float32 = v6
	// [0 4 6]
}

// An error has the column.
func ExampleParse() {
	_, err := expr.Parse("x * sigmod(x)")
	fmt.Println(err)
	// Output: column 5: unknown function "sigmod"; did you mean sigmoid?
}
