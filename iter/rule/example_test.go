package rule_test

import (
	"fmt"

	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// The sum of a channels-last image of bfloat16 and a vector of float32 is a channels-last image of float32.
func ExampleConfig_Rule() {
	image := tensor.New(tensor.BFloat16, 1, 3, 2, 2)
	image.Strides, _ = tensor.ChannelsLast.Strides(image.Shape)
	bias := tensor.New(tensor.Float32, 3, 1, 1)
	r, err := rule.Binary(rule.UndefinedOutput(), rule.OperandOfMeta(image), rule.OperandOfMeta(bias)).Rule()
	fmt.Println(r.Type(0), r.FastSetup(), r.Perm(), err)
	// Output: float32[1,3,2,2]@(12,1,6,3) none [1 3 2 0] <nil>
}
