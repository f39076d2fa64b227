package expand_test

import (
	"fmt"
	"log"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/tensor"
)

// Functions replaces an elementary function by primitive operations, which compiled code has instructions for.
func Example() {
	f, err := expr.Parse("exp(x)")
	if err != nil {
		log.Fatal(err)
	}
	code, err := f.Code([]tensor.DType{tensor.Float32}, expr.Typing{})
	if err != nil {
		log.Fatal(err)
	}
	expanded, err := expand.Functions(code, expand.Target{HasScale: true})
	if err != nil {
		log.Fatal(err)
	}
	primitive := true
	for _, i := range expanded.Insts {
		primitive = primitive && i.Op.Primitive()
	}
	fmt.Println(code.Count(), expanded.Count(), primitive)
	// Output: 1 13 true
}
