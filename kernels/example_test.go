package kernels_test

import (
	"fmt"

	"github.com/graphrun/graphrun/kernels"
)

// An op describes its operands, attributes and implementations.
func ExampleLookup() {
	o := kernels.Lookup("conv2d")
	for _, p := range o.Params {
		fmt.Println("operand", p.Name, "optional:", p.Optional)
	}
	for _, f := range o.Schema.Fields {
		fmt.Println("attribute", f.Name)
	}
	for _, m := range o.Impls {
		fmt.Println("implementation", m.Name)
	}
	fmt.Println(kernels.Lookup("conv2"))
	// Output:
	// operand input optional: false
	// operand weight optional: false
	// operand bias optional: true
	// attribute stride
	// attribute padding
	// attribute dilation
	// attribute groups
	// implementation depthwise_nhwc
	// implementation depthwise_planes
	// implementation direct_nhwc
	// implementation direct_planes
	// implementation nhwc
	// implementation nchw
	// implementation winograd2
	// implementation winograd4
	// <nil>
}
